package suite

import (
	"fmt"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/record"
)

// leaksOf lists every answer that carries the marker of another request of the
// run, once a pair.
func leaksOf(records []record.Record) []artifact.Leak {
	var leaks []artifact.Leak
	for _, r := range records {
		if r.Canary == nil {
			continue
		}
		for _, from := range r.Canary.LeakedFrom {
			leaks = append(leaks, artifact.Leak{RequestIndex: r.RequestIndex, LeakedFromRequestIndex: from, OwnMarkerToo: r.Canary.ObservedMarkerCount > 0})
		}
	}
	return leaks
}

var _ fmt.Stringer = artifact.Leak{}
