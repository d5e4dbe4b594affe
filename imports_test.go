package rvfloor

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/rvfloor/rvfloor"

// mayImport is the one direction of imports: for each package of the library, the
// packages of its own that it may import, and whether it may know Kubernetes. The
// example programs and the packages that only tests use are not listed, and may
// import all of these.
var mayImport = map[string]struct {
	own        []string
	kubernetes bool
}{
	"":                           {},
	"internal/revision":          {},
	"internal/awake":             {},
	"internal/joinnext":          {own: []string{"internal/guard"}},
	"internal/guard":             {},
	"internal/monotonic":         {},
	"metrics":                    {own: []string{"internal/guard"}},
	"docs/monitoring":            {},
	"freshness":                  {own: []string{"internal/revision", "internal/joinnext"}},
	"progress":                   {own: []string{"internal/revision", "internal/guard"}},
	"decorator":                  {own: []string{"decorator/strategy", "decorator/probe", "freshness", "progress", "metrics", "internal/joinnext", "internal/guard", "internal/monotonic", "internal/revision"}, kubernetes: true},
	"decorator/strategy":         {},
	"decorator/apiserver":        {own: []string{"decorator", "decorator/probe", "decorator/watchcache", "freshness", "internal/monotonic", "progress"}, kubernetes: true},
	"decorator/watchcache":       {own: []string{"decorator"}, kubernetes: true},
	"decorator/probe":            {own: []string{"decorator/strategy", "freshness", "internal/revision"}},
	"decorator/decoratortest":    {own: []string{"freshness", "internal/awake"}, kubernetes: true},
	"internal/memstorage":        {own: []string{"progress"}, kubernetes: true},
	"internal/gate":              {},
	"internal/etcdlab":           {own: []string{"internal/gate"}},
	"internal/linear":            {},
	"internal/joinnext/joinrule": {},
	"internal/upstreamsuite":     {own: []string{"internal/etcdlab"}, kubernetes: true},
	"internal/e2e":               {kubernetes: true},
	"internal/httplab":           {kubernetes: true},
	"internal/operations":        {},
	"internal/logfile":           {},
	"internal/fdbshim":           {own: []string{"internal/gate", "internal/revision"}},
	"internal/podclient":         {own: []string{"internal/linear", "internal/sides"}, kubernetes: true},
	"internal/backends":          {own: []string{"internal/linear", "internal/podclient", "internal/sides"}, kubernetes: true},
	"internal/backends/oldetcd":  {},
	"internal/faultlab":          {own: []string{"decorator/apiserver", "internal/etcdlab", "internal/linear", "internal/podclient", "internal/revision", "internal/sides"}, kubernetes: true},
	"internal/sides":             {own: []string{"decorator/apiserver", "internal/etcdlab", "internal/gate", "internal/revision"}, kubernetes: true},
	"examples/doctor":            {own: []string{"decorator", "decorator/probe", "freshness"}},
	"examples/bench":             {own: []string{"decorator", "internal/httplab", "internal/sides"}, kubernetes: true},
	"examples/quickstart":        {own: []string{"decorator", "internal/logfile", "internal/sides"}, kubernetes: true},
	"examples/timetravel":        {own: []string{"internal/etcdlab", "internal/logfile", "internal/sides"}, kubernetes: true},
}

// noServer are packages that must stay clear of the API server's own: whoever
// decorates a storage.Interface need not link one.
var noServer = []string{"freshness", "progress", "metrics", "decorator", "decorator/strategy", "decorator/probe", "decorator/watchcache"}

func TestImportsPointOneWay(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}}:{{join .Imports \" \"}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimSpace(string(out))) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), ":")
		name := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		rule, ok := mayImport[name]
		if !ok {
			t.Errorf("%s has no rule: say here what it may import", path)
			continue
		}
		allowed := map[string]bool{}
		for _, own := range rule.own {
			allowed[module+"/"+own] = true
		}
		for imported := range strings.FieldsSeq(imports) {
			if strings.HasPrefix(imported, module) && !allowed[imported] {
				t.Errorf("%s imports %s", path, imported)
			}
			if strings.HasPrefix(imported, "k8s.io/") && !rule.kubernetes {
				t.Errorf("%s imports %s and is to know nothing of Kubernetes", path, imported)
			}
		}
	}
}

func TestDecoratorNeedsNoServer(t *testing.T) {
	args := []string{"list", "-deps", "-f", "{{.ImportPath}}"}
	for _, name := range noServer {
		args = append(args, module+"/"+name)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if dep == "k8s.io/apiserver/pkg/server" || strings.HasPrefix(dep, "k8s.io/apiserver/pkg/registry") || dep == "testing" {
			t.Errorf("%v link %s", noServer, dep)
		}
	}
}
