package workload

import (
	"strconv"
	"sync"
)

// prose is the pool that filler is copied from: sentences of plain English,
// made once from the patterns and word lists below. Filler is a sequence of
// whole sentences in an order that a key decides, so making it costs a copy a
// sentence and no work a word. Read only once made; safe for concurrent use.
type prose struct {
	text []byte
	// ends[k] is where sentence k ends and sentence k+1 begins. Sentence k is
	// of pattern k mod len(patterns).
	ends []uint32
}

const (
	// sentencesPerPattern makes the pool 4,032 sentences or 280 KB, which
	// stays within a second-level cache.
	sentencesPerPattern = 192
	// paragraphSentences is the mean length of a paragraph.
	paragraphSentences = 7
)

var pool = sync.OnceValue(makeProse)

func makeProse() *prose {
	p := &prose{ends: make([]uint32, 0, len(patterns)*sentencesPerPattern)}
	r := random{state: 0x616e76696c} // any constant; the golden test pins it
	for range sentencesPerPattern {
		for _, pattern := range patterns {
			p.text = appendSentence(p.text, pattern, &r)
			if r.below(paragraphSentences) == 0 {
				p.text = append(p.text, "\n\n"...)
			} else {
				p.text = append(p.text, ' ')
			}
			p.ends = append(p.ends, uint32(len(p.text)))
		}
	}
	return p
}

// fill writes the filler of a key over the whole of buf: sentences drawn by
// the key, the last one cut and closed with a full stop.
//
// The patterns take turns, from one that the key picks, and only the sentence
// of a pattern is drawn: names and figures cost more tokens than words, so
// prompts whose patterns were drawn too would differ more in real tokens (20
// prompts of 32,768 nominal tokens under a Qwen tokenizer: standard deviation
// 0.37 % drawn, 0.24 % in turn; from least to most 1.7 % and 0.8 %).
func (p *prose) fill(buf []byte, key uint64) {
	if len(buf) == 0 {
		return
	}
	r := random{state: key}
	pattern := r.below(len(patterns))
	for n := 0; n < len(buf); {
		k := r.below(sentencesPerPattern)*len(patterns) + pattern
		n += copy(buf[n:], p.sentence(k))
		if pattern++; pattern == len(patterns) {
			pattern = 0
		}
	}
	buf[len(buf)-1] = '.'
}

func (p *prose) sentence(k int) []byte {
	if k == 0 {
		return p.text[:p.ends[0]]
	}
	return p.text[p.ends[k-1]:p.ends[k]]
}

// appendSentence writes one sentence from a pattern: a letter after % draws
// from a list (see appendDrawn), everything else stands as it is. The first letter is
// made a capital.
func appendSentence(dst []byte, pattern string, r *random) []byte {
	first := len(dst)
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			dst = append(dst, pattern[i])
			continue
		}
		i++
		dst = appendDrawn(dst, pattern[i], r)
	}
	if c := dst[first]; 'a' <= c && c <= 'z' {
		dst[first] = c - 'a' + 'A'
	}
	return append(dst, '.')
}

func appendDrawn(dst []byte, kind byte, r *random) []byte {
	switch kind {
	case 'n':
		return append(dst, nouns[r.below(len(nouns))]...)
	case 'a':
		return append(dst, adjectives[r.below(len(adjectives))]...)
	case 'v':
		return append(dst, verbs[r.below(len(verbs))]...)
	case 'd':
		return append(dst, adverbs[r.below(len(adverbs))]...)
	case 'p':
		return append(dst, people[r.below(len(people))]...)
	case 'l':
		return append(dst, places[r.below(len(places))]...)
	case 'u':
		return append(dst, units[r.below(len(units))]...)
	case 'm':
		return append(dst, months[r.below(len(months))]...)
	case 's':
		return strconv.AppendInt(dst, int64(10+r.below(90)), 10)
	case 'y':
		return strconv.AppendInt(dst, int64(1790+r.below(210)), 10)
	default: // 'f', a figure with one decimal
		dst = strconv.AppendInt(dst, int64(100+r.below(900)), 10)
		return append(dst, '.', byte('0'+r.below(10)))
	}
}

// The patterns and lists are this project's own. They hold no instruction, no
// question, no marker and not the word that answers are asked to be made of,
// so that nothing in filler competes with the task at the end of a prompt. The
// share of names and figures is chosen so that 98,304 characters (32,768
// nominal tokens) are about as many real tokens as in published runs of this
// protocol (25,300): 24,600 with o200k, 25,150 with Llama 3's and 26,700 with
// Qwen 3.5's tokenizer.
var patterns = []string{
	"the %a %n near %l %v the %n and the %n",
	"in %m %y, %p %v the %n for %f %u of %n",
	"%p %d %v the %n, which the %n at %l had kept for %s years",
	"one %n, one %n and %s %a %ns stood by the %n",
	"by %m the %n at %l held %f %u of %n",
	"nobody in %l %v the %n after %p left with the %n",
	"%p and %p %v the %a %n %d",
	"the %n weighed %f %u; the %n, only %f",
	"between %l and %l the %n %v %s %ns a week",
	"the %n of %p was %a, %a and %s %u long",
	"after %y the %n %v its %n, and in %y its %n",
	"when the %n %d %v the %n, %p wrote to %l",
	"its %n was %a; its %n was not",
	"old maps of %l show a %n, the %a %n and no %n",
	"%p counted %s %ns, %s %ns and one %a %n",
	"the %n by the %n %v the %n, and the %a %n %v the %n",
	"some of the %a %ns were %a, but most of them were only %a",
	"under the %n the %n %d %v the %n at %l",
	"there was a new %n beside the %n, as %a as the first",
	"people said that the %n had once been a part of the %n",
	"after the storm the %n and the %n %v the %a %n",
}

var nouns = []string{
	"harbour", "lantern", "ledger", "orchard", "bridge", "archive", "meadow", "sluice",
	"kiln", "barge", "steeple", "turbine", "almanac", "anchor", "basin", "beacon",
	"cabinet", "canal", "cellar", "chapel", "chimney", "cistern", "copper", "courtyard",
	"crane", "dock", "drum", "engine", "flint", "forge", "fountain", "furnace", "garden",
	"gauge", "gable", "hammer", "harvest", "hedge", "hinge", "inlet", "kettle", "ladder", "lathe",
	"lever", "loom", "market", "mast", "mill", "mirror", "moor", "needle", "oar", "oven",
	"paddock", "parcel", "pasture", "pier", "plough", "pond", "pulley", "quilt", "rafter",
	"railway", "reservoir", "ridge", "rope", "rudder", "sail", "sawmill", "shutter", "signal", "slate",
	"spire", "stable", "survey", "thicket", "timber", "tower", "tunnel",
	"valve", "viaduct", "warehouse", "weir", "wharf", "wheel", "willow", "windmill", "workshop",
}

var adjectives = []string{
	"amber", "ancient", "angular", "bare", "brittle", "broad", "bronze", "calm", "chalky", "coarse",
	"cobbled", "crooked", "damp", "dim", "dusty", "eastern", "faded", "gilded", "granite", "grey",
	"hollow", "idle", "iron", "ivory", "jagged", "leaden", "level", "limestone", "lofty", "mossy",
	"narrow", "northern", "oaken", "pale", "patched", "plain", "polished", "quiet", "rustic", "salted",
	"shallow", "silver", "sloping", "smoky", "spare", "squat", "steep", "sturdy", "tarred", "tidal",
	"upland", "varnished", "weathered", "whitewashed", "wooden", "woven",
}

var verbs = []string{
	"adjusted", "anchored", "bartered", "borrowed", "carried", "catalogued", "cleared", "crossed", "drained", "exchanged",
	"fastened", "flooded", "gathered", "guarded", "hauled", "inspected", "joined", "leased", "lifted", "loaded",
	"measured", "mended", "mapped", "moved", "outlasted", "overlooked", "painted", "passed", "patrolled", "pledged",
	"polished", "raised", "rebuilt", "recorded", "repaired", "replaced", "restored", "sheltered", "shifted", "sketched",
	"sold", "sorted", "stored", "supplied", "surveyed", "tarred", "towed", "traded", "warmed", "weighed",
}

var adverbs = []string{
	"seldom", "promptly", "twice", "quietly", "steadily", "gradually", "often", "carefully", "finally", "evenly",
	"later", "patiently", "openly", "rarely", "slowly", "jointly",
}

var people = []string{
	"Aldous Pryce", "Benedikta Vohl", "Casimir Thorne", "Dorothea Lisk", "Emeric Waugh", "Fenella Drost",
	"Gideon Marsh", "Henrike Olm", "Ignace Belloc", "Jessamy Korr", "Kasper Yelland", "Leocadia Finn",
	"Mattias Grebe", "Nerys Abbot", "Osric Penhale", "Philippa Zorn", "Quentin Raske", "Rosalind Tamm",
	"Sander Ivory", "Theodora Quist", "Ulrich Maybank", "Verity Sandoz", "Wilmer Cope", "Xanthe Ludlow",
	"Yorick Hale", "Zelda Brandt",
}

var places = []string{
	"Aldermoor", "Birkfell", "Carrow Sound", "Dunmarsh", "Elverton", "Fennick Bay", "Garrowby", "Hexley",
	"Inverlisk", "Jarnholm", "Kestrel Point", "Lowmere", "Mossgate", "Northolt Reach", "Ottersby", "Penwarden",
	"Quillhaven", "Ravensike", "Saltergate", "Thornwick", "Ulverdale", "Vexmoor", "Wrenfield", "Yarrowdale",
}

var units = []string{
	"tons", "yards", "bushels", "pounds", "fathoms", "litres", "acres", "miles", "gallons", "metres", "kilos", "barrels",
}

var months = []string{
	"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
}
