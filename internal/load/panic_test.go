package load_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/workload"
)

// answering is a Completer whose answers take a second and are right.
type answering struct {
	call func(body string) // made before the answer
}

func (a answering) Complete(ctx context.Context, body []byte) client.Observation {
	start := time.Now()
	a.call(string(body))
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return client.Observation{Start: start, End: time.Now(), Failure: record.NewFailure(record.Canceled, "the run ended")}
	}
	end := time.Now()
	return client.Observation{Start: start, End: end, TTFT: end.Sub(start), HasTTFT: true, E2E: end.Sub(start), HasE2E: true, Text: string(body)}
}

// TestPanicEndsTheRun: wherever a worker panics, the others are canceled, what
// had ended is kept, and the cause says where it was.
func TestPanicEndsTheRun(t *testing.T) {
	t.Parallel()
	plan, err := workload.New(workload.Spec{Requests: 12, Parts: []workload.Part{{Tokens: 64, Weight: 1}}, Canaries: true})
	require.NoError(t, err)
	marker := func(i int) string { return plan.Request(i).Marker }
	const at, concurrency = 5, 4 // 0 to 3 have ended by then, and 4, 6 and 7 are under way
	breakAt := func(text string) {
		if text == marker(at) {
			panic(errors.New("broken with s3cr3t-key"))
		}
	}
	for _, tt := range []struct {
		name    string
		options func(*load.Options)
		runner  int // 1 where the request that panicked has a row for it
		why     string
	}{
		{"body", func(o *load.Options) {
			o.Body = func(i int) ([]byte, error) { breakAt(marker(i)); return []byte(marker(i)), nil }
		}, 0, "it was never sent"},
		{"client", func(o *load.Options) { o.Client = answering{breakAt} }, 1, "it was under way"},
		{"on record", func(o *load.Options) {
			o.OnRecord = func(r record.Record) {
				if r.RequestIndex == at {
					panic("broken with s3cr3t-key")
				}
			}
		}, 0, "its row was made before that"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := load.Options{
					Plan: plan, Concurrency: concurrency, Client: answering{func(string) {}},
					Body: func(i int) ([]byte, error) { return []byte(marker(i)), nil },
					Policy: load.Policy{Canaries: contract.Strict, Redact: func(text string) string {
						return client.Redactor(client.Options{APIKey: "s3cr3t-key"})(text)
					}},
				}
				tt.options(&o)
				result, err := load.Run(t.Context(), o)
				require.NoError(t, err)
				assert.False(t, result.Complete())
				fault, ok := errors.AsType[*load.PanicError](result.Cause)
				require.True(t, ok, "got %v", result.Cause)
				assert.Equal(t, at, fault.RequestIndex)
				assert.Equal(t, "broken with [redacted]", fault.Text)
				assert.Contains(t, fault.Stack, "panic_test.go", "the stack is that of the fault")
				completed, runner := 0, 0
				for _, r := range result.Records {
					switch {
					case r.Completed():
						completed++
					case r.Failure.Class == record.RunnerError:
						runner++
						assert.Equal(t, at, r.RequestIndex)
						assert.Equal(t, 64, r.PlannedContextTokens)
						assert.NotContains(t, r.Failure.Message, "s3cr3t-key")
					default:
						assert.Equal(t, record.Canceled, r.Failure.Detail)
					}
				}
				assert.Equal(t, tt.runner, runner, tt.why)
				assert.GreaterOrEqual(t, completed, 4, "the first wave had ended")
			})
		})
	}
}

// TestPanicInTheFirstBody: the other workers wait for the first body of each, and
// one that panics must not leave them waiting.
func TestPanicInTheFirstBody(t *testing.T) {
	t.Parallel()
	plan, err := workload.New(workload.Spec{Requests: 4, Parts: []workload.Part{{Tokens: 64, Weight: 1}}, Canaries: true})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		result, err := load.Run(t.Context(), load.Options{
			Plan: plan, Concurrency: 4, Client: answering{func(string) { sent++ }},
			Body: func(i int) ([]byte, error) {
				if i == 2 {
					panic("broken")
				}
				return []byte("body"), nil
			},
		})
		require.NoError(t, err)
		assert.Empty(t, result.Records)
		assert.Zero(t, sent, "a suite that is broken sends nothing")
		assert.ErrorContains(t, result.Cause, "while it handled request 2: broken")
	})
}
