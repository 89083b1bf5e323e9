package client

import (
	"encoding/json"

	"anvil-capacity/internal/record"
)

// Many events in one read with gaps near zero are a proxy's portions and not
// the server's pace (WIRE 24). FlagManyEventsPerRead is set when more than half
// of the output events came in a read with another one, and there are enough of
// them to tell.
const manyEventsLeast = 8

// setThePace says that this client was behind the server for more than half of
// the time from the first output to the last, and a tenth of the whole: the next
// bytes were there before it had read those before. What is measured there is
// this client. The bursts of a proxy are no such thing, since the waits are
// between them, or before them where there is but one.
func (s *stream) setThePace() bool {
	return s.outputs >= manyEventsLeast && 2*s.behind > s.lastOutput.at-s.firstOutput.at && 10*s.behind > s.lastOutput.at
}

// report puts what a stream said into an observation.
func (s *stream) report(obs *Observation, c *Client) {
	obs.TTFO, obs.HasTTFO = s.firstOutput.at, s.firstOutput.set
	obs.TTFT, obs.HasTTFT = s.firstText.at, s.firstText.set
	end := s.e2e()
	obs.E2E, obs.HasE2E = end.at, end.set
	obs.Text = s.text.Text()
	obs.Tokens = s.tokens()
	obs.Reads, obs.EventReads, obs.CrowdedReads = s.reads, s.eventReads, s.crowdedReads
	obs.Arrivals, obs.ArrivalsTruncated = s.arrivals, s.keepArrivals && s.outputs > len(s.arrivals)

	res := &obs.Response
	res.ContentChunks, res.ReasoningChunks = s.contentChunks, s.reasoningChunks
	res.Events = s.events
	res.Gaps = s.gaps.Take()
	if s.secondOutput.set {
		res.SecondOutputMS = new(record.MS(s.secondOutput.at))
	}
	res.Reads, res.CrowdedReads = s.eventReads, s.crowdedReads
	res.ServerTimings = serverTimings(s.timings)
	for _, reason := range s.finishReasons {
		res.FinishReasons = append(res.FinishReasons, c.safe(reason))
	}
	res.TerminalObserved, res.DoneObserved = s.complete(), s.done.set
	res.TextTruncated = !s.text.Complete()
	res.Flags = s.flags()
}

// tokens are the last usage that is not null, nothing where none came.
func (s *stream) tokens() record.Tokens {
	if !s.hasUsage {
		return record.Tokens{}
	}
	return record.Tokens{
		Prompt:    s.usage.PromptTokens.Ptr(),
		Output:    s.usage.CompletionTokens.Ptr(),
		Reasoning: s.usage.ReasoningTokens.Ptr(),
		Cached:    s.usage.CachedTokens.Ptr(),
	}
}

// serverTimings reads llama.cpp's account of a request; nil where there is none
// or it is not what it should be.
func serverTimings(raw []byte) *record.ServerTimings {
	if len(raw) == 0 {
		return nil
	}
	t := new(record.ServerTimings)
	if json.Unmarshal(raw, t) != nil || t.OutputTokens <= 0 || t.PromptMS < 0 || t.OutputMS < 0 {
		return nil
	}
	return t
}

// flags names the oddities, in no order.
func (s *stream) flags() []string {
	var flags []string
	flag := func(name string, set bool) {
		if set {
			flags = append(flags, name)
		}
	}
	flag(record.FlagMissingFinishReason, s.done.set && !s.finished.set)
	flag(record.FlagUnterminatedFinalEvent, s.unterminated)
	flag(record.FlagDataAfterDone, s.afterDone)
	flag(record.FlagMultipleChoices, s.otherChoices)
	flag(record.FlagClientBehind, s.setThePace())
	flag(record.FlagManyEventsPerRead, s.outputs >= manyEventsLeast && 2*s.shared > s.outputs)
	return flags
}
