package refserver

import (
	"container/list"
	"hash/fnv"
)

const (
	// PrefixBlockTokens is the grain of the prefix cache, as in vLLM.
	PrefixBlockTokens = 16
	// DefaultPrefixCacheTokens is about what an 80 GB card holds beside a small model.
	DefaultPrefixCacheTokens = 1 << 20
)

// prefixBlocks gives one number for each full block of the text; equal numbers
// mean equal text from the beginning up to the end of that block.
func prefixBlocks(text string) []uint64 {
	const blockChars = PrefixBlockTokens * CharsPerToken
	h := fnv.New64a()
	var blocks []uint64
	chars, start := 0, 0
	for at := range text {
		if chars == blockChars {
			_, _ = h.Write([]byte(text[start:at]))
			blocks = append(blocks, h.Sum64())
			chars, start = 0, at
		}
		chars++
	}
	if chars == blockChars {
		_, _ = h.Write([]byte(text[start:]))
		blocks = append(blocks, h.Sum64())
	}
	return blocks
}

// prefixCache remembers blocks, least recently used out first. The model's lock
// guards it. A nil cache remembers nothing.
type prefixCache struct {
	limit int // blocks
	at    map[uint64]*list.Element
	order *list.List // of uint64, most recently used in front
}

func newPrefixCache(tokens int) *prefixCache {
	return &prefixCache{
		limit: tokens / PrefixBlockTokens,
		at:    make(map[uint64]*list.Element),
		order: list.New(),
	}
}

// cached says how many leading tokens of a prompt are remembered, at most all
// but the last one: an engine has to compute something to go on from.
func (c *prefixCache) cached(blocks []uint64, promptTokens int) int {
	if c == nil {
		return 0
	}
	n := 0
	for _, b := range blocks {
		e, ok := c.at[b]
		if !ok {
			break
		}
		c.order.MoveToFront(e)
		n++
	}
	return min(n*PrefixBlockTokens, max(promptTokens-1, 0))
}

// remember takes in the blocks of a prompt. Later blocks are put in first, so
// that a chain is forgotten from its end.
func (c *prefixCache) remember(blocks []uint64) {
	if c == nil {
		return
	}
	for i := len(blocks) - 1; i >= 0; i-- {
		if e, ok := c.at[blocks[i]]; ok {
			c.order.MoveToFront(e)
			continue
		}
		c.at[blocks[i]] = c.order.PushFront(blocks[i])
	}
	for c.order.Len() > c.limit {
		delete(c.at, c.order.Remove(c.order.Back()).(uint64))
	}
}
