package rvfloor

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fenced  = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	checked = regexp.MustCompile(`(?m)^if err != nil \{\n.*\n\}\n`)
)

// TestDocumentedGoCompiles: the Go of every README and package comment is an excerpt
// of a test file, which is compiled. Excerpts may leave out the check of an error, and
// say "..." where they leave out more.
func TestDocumentedGoCompiles(t *testing.T) {
	compiled, documented := map[string]string{}, map[string][]string{}
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(file, "_test.go"):
			compiled[file] = code(read(t, file))
		case strings.HasSuffix(file, ".md"):
			for _, block := range fenced.FindAllStringSubmatch(read(t, file), -1) {
				documented[file] = append(documented[file], block[1])
			}
		case entry.Name() == "doc.go" && !strings.HasPrefix(file, "examples"): // theirs are tables
			documented[file] = packageComment(t, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"README.md", "decorator/doc.go", "decorator/apiserver/doc.go", "decorator/decoratortest/doc.go"} {
		if len(documented[file]) == 0 {
			t.Errorf("%s shows no Go: say how to wire it, or take it off this list", file)
		}
	}
	for file, blocks := range documented {
		for _, block := range blocks {
			excerpt := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(code(block)), `\.\.\.`, `(?s:.*?)`))
			if !slices.ContainsFunc(slices.Collect(maps.Values(compiled)), excerpt.MatchString) {
				t.Errorf("%s: in no test file, so nobody knows whether it compiles:\n%s", file, block)
			}
		}
	}
}

// packageComment is the code in it.
func packageComment(t *testing.T, file string) (blocks []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range new(comment.Parser).Parse(parsed.Doc.Text()).Content {
		if c, ok := block.(*comment.Code); ok {
			blocks = append(blocks, c.Text)
		}
	}
	return blocks
}

// code is Go without what an excerpt may leave out: indentation, and the checks of
// errors.
func code(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return checked.ReplaceAllString(b.String(), "")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
