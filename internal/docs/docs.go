// Package docs makes the parts of README.md that restate code, so that they
// cannot drift: the variables, the failure taxonomy, the faults that the
// reference server plays. A test holds README.md to it; its -update flag
// rewrites the blocks.
package docs

import (
	"fmt"
	"strings"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/record"
)

// Block is one generated part of the README: what stands between
// <!-- made: NAME --> and <!-- end: NAME -->.
type Block struct {
	Name string
	Text string
}

// Blocks are all generated parts.
func Blocks() []Block {
	return []Block{
		{"variables", variables()},
		{"failures", failures()},
	}
}

func variables() string {
	var b strings.Builder
	for _, group := range config.Groups() {
		fmt.Fprintf(&b, "\n**%s**: %s\n\n| variable | meaning | range | default |\n| --- | --- | --- | --- |\n", group.Name, group.Meaning)
		for _, v := range config.Variables() {
			if v.Group == group.Name {
				fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s |\n", v.Name, star(v.List), cell(v.Meaning), cell(withUnit(v)), code(v.Default))
			}
		}
	}
	return b.String()
}

func star(list bool) string {
	if list {
		return " *"
	}
	return ""
}

func withUnit(v config.Variable) string {
	if v.Unit == "" {
		return v.Range
	}
	return v.Range + " (" + v.Unit + ")"
}

func failures() string {
	var b strings.Builder
	b.WriteString("\n| class | detail | what happened |\n| --- | --- | --- |\n")
	for _, f := range record.Taxonomy {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", f.Class, f.Detail, cell(f.Meaning))
	}
	for _, c := range record.PlainClasses {
		fmt.Fprintf(&b, "| `%s` | | %s |\n", c.Class, cell(c.Meaning))
	}
	return b.String()
}

// cell makes text safe for a table of Markdown.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "|", `\|`) + "`"
}

// Replace puts the blocks into a README. It is an error when one of them has no
// place, or has two.
func Replace(readme string, blocks []Block) (string, error) {
	for _, block := range blocks {
		begin, end := "<!-- made: "+block.Name+" -->\n", "<!-- end: "+block.Name+" -->"
		before, rest, ok := strings.Cut(readme, begin)
		if !ok || strings.Count(readme, begin) != 1 {
			return "", fmt.Errorf("placing block %q: want one %q", block.Name, strings.TrimSpace(begin))
		}
		_, after, ok := strings.Cut(rest, end)
		if !ok {
			return "", fmt.Errorf("placing block %q: no %q after its begin", block.Name, end)
		}
		readme = before + begin + block.Text + end + after
	}
	return readme, nil
}
