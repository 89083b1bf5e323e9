// Package sizing makes the prompts of a plan as large as was asked in the
// model's own tokens (CAPACITY_CONTEXT_SIZING=measured), to within Tolerance.
//
// # What is counted
//
// A prompt's tokens are those that the server bills: usage.prompt_tokens, with
// chat template, marker and task. Two things count them:
//
//   - The server's own tokenizer, where it can be asked (see dialects). Nothing
//     is generated and no prefix cache is warmed. It is believed only after two
//     short requests, whose usage it must agree with but for a constant: the chat
//     template, where it knows none.
//   - Usage itself, of requests for one token. They are samples: prompts like the
//     plan's that no plan has (workload.Plan.AppendSample), so the cell finds
//     nothing of them in a prefix cache.
//
// # How a size is found
//
// Tokens grow with characters by a line. Two calibrations of different length
// give it, and so a length for the size that was asked. A third count, of other
// samples, must be within Tolerance; if it is not, the length is corrected by
// what it showed and counted anew, Rounds times at most, and then it is an error.
//
// Prompts of one length differ in tokens, by a standard deviation of 8 to 15
// whatever their length (SmolLM2, 256 to 4,096 tokens): 0.3 % at 4,096 tokens and
// 3 % at 256. So a count is a mean over more samples the smaller the size is.
// Where the tokenizer can be asked, small prompts are not left to the mean: each
// request's own prompt is counted and cut to size.
package sizing
