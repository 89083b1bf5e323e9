package config

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCellsAreTheProduct(t *testing.T) {
	s := mustLoad(t, nil, "CONCURRENCY=4,1", "CONTEXT_TOKENS=4096,8192x3+32768x1", "RESPONSE_WORDS=16,0", "REQUESTS=7")
	cells := s.Cells()
	names := make([]string, len(cells))
	for i, c := range cells {
		names[i] = c.Name
		assert.Equal(t, 7, c.Requests, "a cell has the other settings too")
	}
	assert.Equal(t, []string{
		"c4-ctx4096-w16", "c4-ctx4096-w0", "c4-ctx8192x3_32768x1-w16", "c4-ctx8192x3_32768x1-w0",
		"c1-ctx4096-w16", "c1-ctx4096-w0", "c1-ctx8192x3_32768x1-w16", "c1-ctx8192x3_32768x1-w0",
	}, names, "in listed order, the last list turning fastest")
	last := cells[7]
	assert.Equal(t, 1, last.Concurrency)
	assert.Equal(t, 0, last.ResponseWords)
	assert.Equal(t, Context{[]ContextPart{{8192, 3}, {32768, 1}}}, last.Context)
	assert.Equal(t, []int{4, 1}, last.Settings.Concurrency, "the lists are still there")
}

func TestCellsOfZeroSettings(t *testing.T) { assert.Empty(t, Settings{}.Cells()) }

// go test rewrites other characters in a subtest's name, and artifacts use the
// name as part of a file's.
var subtestName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func TestCellNamesAreUniqueAndPlain(t *testing.T) {
	s := mustLoad(t, nil, "CONCURRENCY=1,2,11", "CONTEXT_TOKENS=1024,1024+2048,1024x2+2048,1024+2048x2,1024+2048+4096", "RESPONSE_WORDS=0,1,16")
	seen := map[string]bool{}
	for _, c := range s.Cells() {
		assert.Regexp(t, subtestName, c.Name)
		assert.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
	}
	require.Len(t, seen, 3*5*3)
}

func TestContext(t *testing.T) {
	for _, row := range []struct {
		name, why, text, want string
		smallest, largest     int
	}{
		{"fixed", "one size", "2048", "2048", 2048, 2048},
		{"weight alone", "one size has no use for it", "2048x7", "2048", 2048, 2048},
		{"distribution", "as written", "1024x3+2048x1", "1024x3_2048x1", 1024, 2048},
		{"weight left out", "it is 1", "1024+2048", "1024x1_2048x1", 1024, 2048},
		{"order", "by size", "2048x1+1024x3", "1024x3_2048x1", 1024, 2048},
		{"common factor", "taken out", "1024x6+2048x2", "1024x3_2048x1", 1024, 2048},
		{"spaces", "dropped", " 1024 x 3 + 2048 ", "1024x3_2048x1", 1024, 2048},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := mustLoad(t, nil, "CONTEXT_TOKENS="+row.text).Context[0]
			assert.Equal(t, row.want, c.Name(), row.why)
			assert.Equal(t, row.smallest, c.Smallest())
			assert.Equal(t, row.largest, c.Largest())
		})
	}
	assert.Equal(t, Context{[]ContextPart{{2048, 1}}}, Fixed(2048))
	assert.Zero(t, Context{}.Largest()+Context{}.Smallest())
	assert.Empty(t, Context{}.Name())
}

func TestBaseURLIsNormalised(t *testing.T) {
	for _, row := range []struct{ name, why, text, want string }{
		{"as it is", "nothing to do", "http://localhost:8000/v1", "http://localhost:8000/v1"},
		{"trailing slash", "requests add their own", "http://localhost:8000/v1/", "http://localhost:8000/v1"},
		{"trailing slashes", "all of them", "http://localhost:8000/v1//", "http://localhost:8000/v1"},
		{"scheme", "lower case", "HTTPS://h/v1", "https://h/v1"},
		{"other path", "gateways have their own", "https://h/openai/deployments/x%2Fy", "https://h/openai/deployments/x%2Fy"},
		{"IPv6", "with its brackets", "http://[::1]:8000/v1", "http://[::1]:8000/v1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := mustLoad(t, nil, "BASE_URL="+row.text)
			assert.Equal(t, row.want, s.BaseURL, row.why)
			assert.False(t, s.Embedded())
		})
	}
}

func TestPoliciesAndBooleans(t *testing.T) {
	for text, want := range map[string]string{
		"off": "off", "false": "off", "0": "off", "FALSE": "off", "observe": "observe", "Observe": "observe",
		"strict": "strict", "true": "strict", "1": "strict", "on": "strict",
	} {
		assert.Equal(t, want, string(mustLoad(t, nil, "CANARIES="+text).Canaries), text)
	}
	for text, want := range map[string]bool{"true": true, "On": true, "1": true, "false": false, "off": false, "0": false} {
		assert.Equal(t, want, mustLoad(t, nil, "PREFLIGHT="+text).Preflight, text)
	}
}

func TestThresholdsThatGoTogether(t *testing.T) {
	s := mustLoad(t, nil, "THRESHOLDS=a>=1, a<=1 ,a<2,a>0.5,b_2>-1.5e3,z>0")
	assert.Equal(t, []Threshold{
		{"a", ">=", 1, "a>=1", 0}, {"a", "<=", 1, "a<=1", 0}, {"a", "<", 2, "a<2", 0}, {"a", ">", 0.5, "a>0.5", 0}, {"b_2", ">", -1500, "b_2>-1.5e3", 0}, {"z", ">", 0, "z>0", 0},
	}, s.Thresholds)
}

func TestHeaders(t *testing.T) {
	s := mustLoad(t, nil, "HEADERS=A: 1|b:2:3\r\nC-d : x y \n\n| ")
	assert.Equal(t, []Header{{"A", "1"}, {"B", "2:3"}, {"C-D", "x y"}}, s.Headers)
	s = mustLoad(t, nil, "HEADERS=Authorization: Basic eA==")
	assert.Equal(t, []Header{{"Authorization", "Basic eA=="}}, s.Headers, "another scheme than Bearer is given this way")
}
