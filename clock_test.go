package rvfloor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// readsClock are the files that may turn a time into a number: for people, who want the wall
// clock's. What is compared later is a time.Time, which carries the monotonic clock, or a
// monotonic.Moment: a clock that is set back would make numbers wait for hours.
var readsClock = map[string]string{
	"decorator/history.go": "the chart of the debug page",
	"decorator/observe.go": "a metric",
}

func TestNoWallClockIsKept(t *testing.T) {
	used := map[string]bool{}
	for _, root := range []string{"freshness", "progress", "metrics", "decorator", "internal/joinnext", "internal/guard", "internal/revision", "internal/monotonic"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || len(call.Args) > 0 { // time.Unix makes a time
					return true
				}
				switch method.Sel.Name {
				case "Unix", "UnixNano", "UnixMicro", "UnixMilli":
					used[filepath.ToSlash(path)] = true
					if readsClock[filepath.ToSlash(path)] == "" {
						t.Errorf("%s keeps the wall clock: use a time.Time or a monotonic.Moment", files.Position(n.Pos()))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for path := range readsClock {
		if !used[path] {
			t.Errorf("%s does not read the clock any more: take it from the list", path)
		}
	}
}
