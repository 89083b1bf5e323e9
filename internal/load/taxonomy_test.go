package load_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

var errInterrupt = errors.New("interrupt")

// taxonomySource is where record.Taxonomy stands.
const taxonomySource = "../record/failure.go"

// makers are the tests that make real faults: a file, and in it the functions and
// tables in which a detail is what must come of one.
var makers = []struct {
	file  string
	names []string
}{
	{"../client/taxonomy_test.go", []string{"faultRows", "TestStaleConnection"}},
	{"faults_test.go", []string{"TestMissingUsage", "TestCanceledInFlight"}},
}

// TestEveryDetailHasATestThatMakesIt reads the taxonomy and the tests as source:
// a detail that is added without a fault that produces it is found here, and
// so is a test that was taken away.
func TestEveryDetailHasATestThatMakesIt(t *testing.T) {
	made := map[string]bool{}
	for _, m := range makers {
		for _, name := range m.names {
			wanted := detailsWanted(declared(t, m.file, name))
			assert.NotEmpty(t, wanted, "%s in %s wants no detail", name, m.file)
			for _, detail := range wanted {
				made[detail] = true
			}
		}
	}
	listed := taxonomyNames(t)
	require.Len(t, listed, len(record.Taxonomy), "the source was read right")
	for _, name := range listed {
		assert.True(t, made[name], "no test makes the fault record.%s", name)
	}
}

// declared finds a function or a variable of a file.
func declared(t *testing.T, file, name string) ast.Node {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == name {
				return d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].Name == name {
					return v
				}
			}
		}
	}
	t.Fatalf("%s is not in %s", name, file)
	return nil
}

// detailsWanted are the X of "want: record.X" and "assert.Equal(t, record.X, ...".
func detailsWanted(in ast.Node) (names []string) {
	add := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "record" {
				names = append(names, s.Sel.Name)
			}
		}
	}
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "want" {
				add(n.Value)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Equal" && len(n.Args) > 1 {
				add(n.Args[1])
			}
		}
		return true
	})
	return names
}

// taxonomyNames are the constants that record.Taxonomy lists.
func taxonomyNames(t *testing.T) (names []string) {
	t.Helper()
	ast.Inspect(declared(t, taxonomySource, "Taxonomy"), func(n ast.Node) bool {
		row, ok := n.(*ast.CompositeLit)
		if !ok || row.Type != nil || len(row.Elts) == 0 {
			return true
		}
		if name, ok := row.Elts[0].(*ast.Ident); ok {
			names = append(names, name.Name)
		}
		return false
	})
	return names
}
