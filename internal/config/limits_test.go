package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The limits stand here as PROTOCOL section 2 gives them, in figures and not by
// the constants, one inside and one outside at each end.
func TestLimits(t *testing.T) {
	ca := certificate(t)
	for _, row := range []struct {
		name    string
		with    []string // what lets the ends of the range stand
		in, out []string
	}{
		{"REQUESTS", nil, []string{"1", "10000"}, []string{"0", "10001"}},
		{"CONCURRENCY", nil, []string{"1", "4096", "1,4096"}, []string{"0", "4097", "1,4097"}},
		{"CONTEXT_TOKENS", nil, []string{"32", "1048576", "32x10000+1048576", "32x1"}, []string{"31", "1048577", "32x10001+64", "32+1048577"}},
		{"CONTEXT_SEED", nil, []string{"0", "2147483647"}, []string{"-1", "2147483648"}},
		{"SCOUT_SEED", nil, []string{"0", "2147483647"}, []string{"-1", "2147483648"}},
		{"SCOUT_REQUESTS", nil, []string{"0", "10000"}, []string{"-1", "10001"}},
		{"MAX_TOKENS", []string{"CANARIES=off", "RESPONSE_WORDS=1"}, []string{"1", "65536"}, []string{"0", "65537"}},
		{"MAX_TOKENS", []string{"CANARIES=observe", "RESPONSE_WORDS=1"}, []string{"16"}, []string{"15"}},
		{"MAX_TOKENS", []string{"RESPONSE_WORDS=16,40"}, []string{"40"}, []string{"39"}},
		{"RESPONSE_WORDS", []string{"CANARIES=off", "MAX_TOKENS=65536"}, []string{"0", "65536"}, []string{"-1", "65537"}},
		{"RESPONSE_WORDS", []string{"MAX_TOKENS=2048"}, []string{"1633"}, []string{"1634"}},
		{"CONTROLLED_OUTPUT", []string{"MAX_TOKENS=2048", "CANARIES=off", "RESPONSE_WORDS=1633"}, []string{"strict"}, nil},
		{"SHARED_PREFIX_TOKENS", []string{"PROMPT_CACHE=shared", "CONTEXT_TOKENS=1024,2048"}, []string{"1", "1023"}, []string{"0", "1024"}},
		{"CONTEXT_MARGIN", nil, []string{"0", "1048576"}, []string{"-1", "1048577"}},
		{"MAX_MODEL_LEN", nil, []string{"3328", "16777216"}, []string{"0", "3327", "16777217"}},
		{"TIMEOUT", nil, []string{"1ms", "1h"}, []string{"999us", "1h0m0.001s"}},
		{"STALL_TIMEOUT", []string{"TIMEOUT=1h"}, []string{"1ms", "1h"}, []string{"999us", "1h0m0.001s"}},
		{"TEMPERATURE", nil, []string{"0", "2", "-0"}, []string{"-0.1", "2.1"}},
		{"TOP_P", nil, []string{"0.001", "1"}, []string{"0", "1.001"}},
		{"MAX_FAILURE_RATE", nil, []string{"0", "1", "0%", "100 %"}, []string{"-0.001", "1.001", "100.1%"}},
		{"RUN", nil, []string{strings.Repeat("r", 64)}, []string{strings.Repeat("r", 65)}},
		{"REASONING_EFFORT", nil, []string{strings.Repeat("r", 32)}, []string{strings.Repeat("r", 33)}},
		{"MODEL", nil, []string{strings.Repeat("ö", 1024)}, []string{strings.Repeat("ö", 1025)}},
		{"BASE_URL", nil, []string{"http://h:1/v1", "http://h:65535/v1"}, []string{"http://h:0/v1", "http://h:65536/v1"}},
		{"CONCURRENCY", nil, []string{ones(256)}, []string{ones(257)}},
		{"EXTRA_BODY", nil, []string{jsonOf(64<<10 - 1), jsonOf(64 << 10)}, []string{jsonOf(64<<10 + 1)}},
		{"API_KEY_FILE", nil, []string{writeFile(t, strings.Repeat("k", 16<<10))}, []string{writeFile(t, strings.Repeat("k", 16<<10+1))}},
		{"CA_FILE", nil, []string{writeFile(t, ca+strings.Repeat("\n", 4<<20-len(ca)))}, []string{writeFile(t, ca+strings.Repeat("\n", 4<<20+1-len(ca)))}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, text := range row.in {
				mustLoad(t, nil, append(row.with, row.name+"="+text)...)
			}
			for _, text := range row.out {
				assert.Len(t, faultsOf(t, nil, append(row.with, row.name+"="+text)...), 1)
			}
		})
	}
}

// jsonOf gives a JSON object of n bytes.
func jsonOf(n int) string { return `{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}` }

func TestCellFileLimit(t *testing.T) {
	padded := func(n int) string { return "REQUESTS=5\n" + strings.Repeat("#", n-len("REQUESTS=5\n")) }
	for _, n := range []int{64<<10 - 1, 64 << 10} {
		assert.Equal(t, 5, mustLoad(t, oneCell(padded(n)), "CELL=x").Requests)
	}
	assert.Contains(t, faultsOf(t, oneCell(padded(64<<10+1)), "CELL=x")[0], "longer than 65536 bytes")
}

// The longest run and cell names that pass must still fit a file name.
func TestNamesFitAFileName(t *testing.T) {
	parts := make([]string, contextPartsMax)
	for i := range parts {
		parts[i] = itoa(contextMax-i) + "x" + itoa(contextWeightMax-i)
	}
	s := mustLoad(t, nil, "RUN="+strings.Repeat("r", runMaxChars), "CONCURRENCY=4096", "RESPONSE_WORDS=65536", "MAX_TOKENS=65536",
		"CANARIES=off", "CONTEXT_TOKENS="+strings.Join(parts, "+"))
	name := s.Run + "-" + s.Cells()[0].Name + "-scout-summary.json.tmp"
	assert.Greater(t, len(name), 200, "this is meant to be the longest name")
	assert.LessOrEqual(t, len(name), 255)
}

// certificate makes a self-signed one, in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
