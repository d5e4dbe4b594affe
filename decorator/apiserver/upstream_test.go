package apiserver

import (
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// This package does again what upstream does in these functions and keeps to itself. When one of them changes, compare it
// with what stands beside it here, change what needs it, then pin the new sum.
var watchedUpstream = map[string]struct{ sum, counterpart string }{
	"storage/storagebackend/factory/factory.go:Create":               {"701ae77c395ad641", "checkType"},
	"storage/storagebackend/factory/etcd3.go:newETCD3Client":         {"661391f08efacd51", "clientConfig, dial"},
	"storage/storagebackend/factory/etcd3.go:blockUntilReady":        {"0fffc0ab9a307306", "waitReady"},
	"storage/storagebackend/factory/etcd3.go:startCompactorOnce":     {"d5892126873d5d61", "compactor"},
	"storage/storagebackend/factory/etcd3.go:newETCD3Storage":        {"acb9b14e9d637a64", "newRawStorage, generation.compose"},
	"registry/generic/registry/storage_factory.go:StorageWithCacher": {"b550765a4ce6c392", "compose"},
	"storage/cacher/delegator.go:NewCacheDelegator":                  {"b1d7fed2f3ffcca4", "generation.compose, check"},
	"registry/generic/storage_decorator.go:UndecoratedStorage":       {"e20ec703a8747d3e", "RESTOptionsGetter"},
}

func TestUpstreamHasNotChanged(t *testing.T) {
	root := upstreamDir(t)
	for at, want := range watchedUpstream {
		file, name, _ := strings.Cut(at, ":")
		assert.Equal(t, want.sum, functionSum(t, filepath.Join(root, file), name),
			"%s changed: compare it with %s, then pin this sum", at, want.counterpart)
	}
}

// The times of dialing are upstream's, by name.
func TestDialTimesMatchUpstream(t *testing.T) {
	file := parse(t, filepath.Join(upstreamDir(t), "storage/storagebackend/factory/etcd3.go"))
	own := parse(t, "client.go")
	for _, name := range []string{"dialTimeout", "keepaliveTime", "keepaliveTimeout"} {
		want := constant(t, file, name)
		require.NotEmpty(t, want, "upstream has no constant %s any more", name)
		assert.Equal(t, want, constant(t, own, name), name)
	}
}

// upstreamDir is where the API server's packages are.
func upstreamDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage").Output()
	require.NoError(t, err, "the go command is needed to find upstream's source")
	return filepath.Dir(strings.TrimSpace(string(out)))
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0) // without comments: they may change
	require.NoError(t, err)
	return file
}

// functionSum is a sum over a function's code. Upstream declares some as variables, so that its tests can replace them.
func functionSum(t *testing.T, path, name string) string {
	t.Helper()
	var found ast.Node
	ast.Inspect(parse(t, path), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == name {
				found = n
			}
		case *ast.ValueSpec:
			if n.Names[0].Name == name {
				found = n
			}
		}
		return found == nil
	})
	require.NotNil(t, found, "%s has no %s any more", path, name)
	return sum(t, found)
}

func sum(t *testing.T, node ast.Node) string {
	t.Helper()
	hash := sha256.New()
	// An empty file set prints without positions, so moving a function changes nothing.
	require.NoError(t, printer.Fprint(hash, token.NewFileSet(), node))
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// constant is the text of a constant's value.
func constant(t *testing.T, file *ast.File, name string) string {
	t.Helper()
	var text strings.Builder
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == name && len(spec.Values) == 1 {
			require.NoError(t, printer.Fprint(&text, token.NewFileSet(), spec.Values[0]))
		}
		return true
	})
	return text.String()
}
