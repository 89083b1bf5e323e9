package config

import (
	"fmt"
	"time"

	"anvil-capacity/internal/contract"
)

// Limits of the workload, both ends allowed (PROTOCOL section 2).
const (
	requestsMin, requestsMax       = 1, 10_000
	concurrencyMin, concurrencyMax = 1, 4_096
	contextMin, contextMax         = 32, 1_048_576
	maxTokensMin, maxTokensMax     = 1, 65_536
	wordsMin, wordsMax             = 0, 65_536
	seedMin, seedMax               = 0, 1<<31 - 1
	timeoutMax                     = time.Hour
)

// Limits of this suite, both ends allowed.
const (
	// timeoutMin is as fine as times are written in.
	timeoutMin = time.Millisecond
	// canaryTokensMin is the least max_tokens with canaries (PROTOCOL section 2):
	// a shorter answer cannot hold its marker.
	canaryTokensMin = 16
	// modelLenMax is far above any served context; it keeps sums in range.
	modelLenMax = 16_777_216
	// contextPartsMax and runMaxChars keep RUN-CELL-summary.json within the 255
	// bytes of a file name.
	contextPartsMax  = 8
	contextWeightMax = 10_000
	runMaxChars      = 64
	// repeatsMax is what one run can reasonably take; more want runs of their own.
	repeatsMax = 20
	// cellsMax bounds the matrix: a typo must not plan a week.
	cellsMax = 256
	// labelMaxChars bounds texts that are only recorded or sent.
	labelMaxChars = 1_024
	// temperatureMax is the API's.
	temperatureMax = 2
	// Sizes of what is read, in bytes.
	extraBodyMaxBytes = 64 << 10
	keyFileMaxBytes   = 16 << 10
	caFileMaxBytes    = 4 << 20
	cellFileMaxBytes  = 64 << 10
)

// markerMaxChars is the longest marker, ANVIL_REQ_<seed>_<index, five digits>.
const markerMaxChars = len("ANVIL_REQ_2147483647_00000")

// capturableWordsMax is how many words an exact answer can have and still be
// captured whole: the marker, then " code" for each.
const capturableWordsMax = (contract.CaptureLimitChars - markerMaxChars) / len(" code")

// limits is a range of whole numbers, both ends allowed.
type limits struct{ low, high int }

func (l limits) String() string { return fmt.Sprintf("%d to %d", l.low, l.high) }

func (l limits) hold(n int) bool { return l.low <= n && n <= l.high }
