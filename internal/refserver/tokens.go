package refserver

import "unicode/utf8"

// CharsPerToken is how many characters (Unicode code points) this server's own
// tokenizer takes for one token. Real ones take 3.9 for the prompts of this
// suite (PROTOCOL section 2: 32,768 nominal tokens of three characters are
// about 25,300 real ones).
const CharsPerToken = 4

// CountTokens is the server's token count of a text: its characters divided by
// CharsPerToken, rounded up. "" has none.
func CountTokens(text string) int {
	return (utf8.RuneCountInString(text) + CharsPerToken - 1) / CharsPerToken
}
