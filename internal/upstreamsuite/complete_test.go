package upstreamsuite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	checksPath   = "k8s.io/apiserver/pkg/storage/testing"
	featuresPath = "k8s.io/apiserver/pkg/features"
)

// notCached are the checks that upstream runs over its etcd storage and not over its cached store, and why not.
var notCached = map[string]string{
	"RunOptionalTestProgressNotify":           "progress of a raw watch",
	"RunTestGetListWithErrorAggregation":      "needs the raw storage's transformer",
	"RunTestGetListWithoutErrorAggregation":   "needs the raw storage's transformer",
	"RunTestGuaranteedUpdate":                 "kubernetes#109831",
	"RunTestGuaranteedUpdateChecksStoredData": "kubernetes#109831",
	"RunTestListInconsistentContinuation":     "kubernetes#109831",
	"RunTestListResourceVersionMatch":         "kubernetes#109831",
	"RunTestTransformationFailure":            "kubernetes#109831",
	"RunTestWatchContextCancel":               "kubernetes#109831",
	"RunTestWatchError":                       "kubernetes#109831",
	"RunTestWatchWithUnsafeDelete":            "needs the raw storage's transformer",
	"RunWatchErrorIsBlockingFurtherEvents":    "needs the raw storage's transformer",
}

// TestComplete holds the suite against the upstream version in go.mod: each of its checks is run here, as often as
// upstream runs it over its cached store, or is listed as one that upstream does not run over it.
func TestComplete(t *testing.T) {
	dir := upstreamDir(t)
	exported := exportedChecks(parseDir(t, filepath.Join(dir, "pkg/storage/testing"), nonTest))
	upstream := readCalls(parseDir(t, filepath.Join(dir, "pkg/storage/cacher"), inTest))
	ours := readCalls(parseDir(t, ".", nonTest))
	for _, p := range complain(exported, upstream, ours, notCached) {
		t.Error(p)
	}
	if len(exported) == 0 || len(upstream.checks) == 0 {
		t.Errorf("found %d checks and %d calls of them upstream: the test looks at the wrong place", len(exported), len(upstream.checks))
	}
}

// TestCompleteNotices breaks a small suite in each way that TestComplete has to notice.
func TestCompleteNotices(t *testing.T) {
	const upstream = `package u
		import (check "k8s.io/apiserver/pkg/storage/testing"; "k8s.io/apiserver/pkg/features")
		func TestA(t T) { set(t, features.Gate, true); check.RunA(t) }
		func TestA2(t T) { for range 2 { t.Run("x", func(t T) { check.RunA(t) }) } }
		func TestOther(t T) { set(t, features.Unrelated, true) }`
	const good = `package o
		import ("k8s.io/apiserver/pkg/features"; storagetesting "k8s.io/apiserver/pkg/storage/testing")
		var cases = []any{features.Gate, func(t T) { storagetesting.RunA(t) }, func(t T) { storagetesting.RunA(t) }}`
	exported := exportedChecks([]*ast.File{parse(t, `package c
		func RunA(t T) {}
		func RunB(t T) {}
		func runC(t T) {}
		func (s S) RunD(t T) {}`)})
	for _, tt := range []struct {
		name, ours string
		left       map[string]string
		want       string // part of the one complaint; empty: none
	}{
		{"nothing wrong", good, map[string]string{"RunB": ""}, ""},
		{"neither run nor listed", good, nil, "RunB"},
		{"run and listed", good, map[string]string{"RunA": "", "RunB": ""}, "RunA"},
		{"listed and unknown", good, map[string]string{"RunB": "", "RunGone": ""}, "RunGone"},
		{"run less often", strings.Replace(good, "storagetesting.RunA(t)", "", 1), map[string]string{"RunB": ""}, "RunA"},
		{"named and not called", strings.Replace(good, "storagetesting.RunA(t)", "_ = storagetesting.RunA", 1), map[string]string{"RunB": ""}, "RunA"},
		{"a gate left out", strings.Replace(good, "features.Gate,", "", 1), map[string]string{"RunB": ""}, "Gate"},
		{"another package's RunA", strings.Replace(good, "storage/testing", "storage/other", 1), map[string]string{"RunA": "", "RunB": ""}, "RunA"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := complain(exported, readCalls([]*ast.File{parse(t, upstream)}), readCalls([]*ast.File{parse(t, tt.ours)}), tt.left)
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("complaints %q, want none", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("complaints %q, want one about %s", got, tt.want)
			}
		})
	}
}

func complain(exported []string, upstream, ours calls, left map[string]string) []string {
	var complaints []string
	for _, name := range exported {
		_, listed := left[name]
		switch their, our := upstream.checks[name], ours.checks[name]; {
		case listed && their > 0:
			complaints = append(complaints, name+": listed as not run over upstream's cached store, which its tests do")
		case listed && our > 0:
			complaints = append(complaints, name+": run here and listed as not run")
		case !listed && our == 0:
			complaints = append(complaints, name+": not run here, and not listed as one that upstream does not run over its cached store")
		case our < their:
			complaints = append(complaints, name+": called in fewer places than in upstream's tests of its cached store")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if !slices.Contains(exported, name) {
			complaints = append(complaints, name+": listed as not run, and upstream has no such check")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(upstream.gates)) {
		if !ours.gates[name] {
			complaints = append(complaints, name+": a gate that upstream switches for the checks of its cached store, and this suite does not")
		}
	}
	return complaints
}

// calls are the calls of upstream's checks in some files, and the gates named beside them.
type calls struct {
	checks map[string]int
	gates  map[string]bool
}

// readCalls counts call sites, and collects the feature gates that the same top-level declarations name. In our files the gates
// stand apart from the checks, so there the whole package is the scope: it has no other use for gates.
func readCalls(files []*ast.File) calls {
	c := calls{checks: map[string]int{}, gates: map[string]bool{}}
	test := slices.ContainsFunc(files, func(f *ast.File) bool { return slices.ContainsFunc(f.Decls, isTest) })
	for _, file := range files {
		checks, gates := importName(file, checksPath), importName(file, featuresPath)
		for _, decl := range file.Decls {
			named, called := map[string]bool{}, false
			ast.Inspect(decl, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if name, ok := selected(call.Fun, checks); ok && strings.HasPrefix(name, "Run") {
						c.checks[name]++
						called = true
					}
				}
				if e, ok := n.(ast.Expr); ok {
					if name, ok := selected(e, gates); ok {
						named[name] = true
					}
				}
				return true
			})
			if called || !test {
				maps.Copy(c.gates, named)
			}
		}
	}
	return c
}

// isTest tells a test's declaration from one of the suite.
func isTest(d ast.Decl) bool {
	f, ok := d.(*ast.FuncDecl)
	return ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test")
}

// selected reports the name that e selects from the package imported as pkg.
func selected(e ast.Expr, pkg string) (string, bool) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || pkg == "" {
		return "", false
	}
	x, ok := s.X.(*ast.Ident)
	return s.Sel.Name, ok && x.Name == pkg
}

// importName is the name that path has in file, or empty when it is not imported.
func importName(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if spec.Path.Value == `"`+path+`"` {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return filepath.Base(path)
		}
	}
	return ""
}

func exportedChecks(files []*ast.File) []string {
	var names []string
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") {
				names = append(names, f.Name.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func inTest(file string) bool  { return strings.HasSuffix(file, "_test.go") }
func nonTest(file string) bool { return !inTest(file) }

func parseDir(t *testing.T, dir string, want func(file string) bool) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if !want(path) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func parse(t *testing.T, source string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// upstreamDir is where the sources of the upstream version in go.mod lie, its tests among them.
func upstreamDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/apiserver").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.TrimSpace(string(out))
}
