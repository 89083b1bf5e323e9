// Package refserver is the embedded endpoint: an OpenAI-compatible chat server
// whose timings are known. It is an instrument and not a model: it answers what
// the prompt asks for, on a timetable that is computed and not measured, and it
// keeps a record of when each byte left. A client that is right measures what
// the record says.
//
// # The timetable
//
// A request joins the line when its body has been read (Exchange.Joined). From
// there on its times follow from the requests that joined and from nothing else:
//
//   - Admission: Options.Slots requests are served at once; the others wait and
//     are admitted strictly in the order in which they joined.
//   - Prefill takes (prompt tokens - cached tokens) / PrefillTokS from
//     admission. Each request has the whole rate. The first token leaves when
//     prefill is done.
//   - Each following token leaves DecodeBase + DecodePerActive * (active - 1)
//     after the one before it, where active counts the requests between their
//     first and last token (this one included) at the moment the one before left.
//   - The answer ends (finish event, usage, [DONE]) with its last token, and so
//     does its hold on the slot.
//   - JitterFraction f stretches prefill and each token step by a factor in
//     [1-f, 1+f) drawn from Seed, the request's identity (its marker, or without
//     one its prompt) and the token's number, so that it does not depend on the
//     order of arrival.
//
// One event carries one token, always. Hence TTFO = queue + prefill, TTFT is the
// time of the token after the reasoning, and TPOT = (E2E - TTFO) / (tokens - 1).
// [Schedule] computes the same timetable without a server.
//
// A late handler moves its own writes and nobody's timetable: what was planned
// and when it left stand side by side in [Exchange]. In a testing/synctest
// bubble the two are equal to the nanosecond.
//
// # Tokens
//
// This server has its own token count: characters (Unicode code points) of all
// message texts, joined by a line feed, divided by four and rounded up.
//
// # Use in a bubble
//
// Call [New] inside the bubble, [Server.Serve] on an in-memory listener (or use
// the Server as an http.Handler), and [Server.Close] before the bubble ends. No
// lock is held over a sleep.
package refserver
