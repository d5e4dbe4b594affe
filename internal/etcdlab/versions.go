package etcdlab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// VersionT is what the etcds of other versions need of *testing.T.
type VersionT interface {
	T
	Context() context.Context
	Skipf(format string, args ...any)
}

// DebianVersion is that of etcd-server in Debian 12, whose progress overtakes events.
const DebianVersion = "3.4.23"

// RunDebian runs Debian's etcd-server for a test, which is skipped where the etcd in PATH is
// none, or another.
func RunDebian(t VersionT) (endpoint string) {
	t.Helper()
	binary, err := exec.LookPath("etcd")
	if err != nil {
		t.Skipf("NO ETCD BINARY FOUND, NOTHING WAS TESTED: apt-get install etcd-server gives %s, whose progress overtakes events", DebianVersion)
	}
	endpoint, version := RunBinary(t, binary)
	if version != DebianVersion {
		t.Skipf("THE ETCD BINARY IS %s, NOTHING WAS TESTED: Debian's etcd-server %s is known to let progress overtake events", version, DebianVersion)
	}
	return endpoint
}

// RunBuilt builds the etcd of a module in .ci, such as "etcd-3.6", and runs it for a test.
// The first build takes half a minute.
func RunBuilt(t VersionT, module string) (endpoint string) {
	t.Helper()
	_, self, _, _ := runtime.Caller(0)
	path := filepath.Join(t.TempDir(), "etcd")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "go.etcd.io/etcd/server/v3")
	build.Dir, build.Env = filepath.Join(filepath.Dir(self), "../../.ci", module), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("etcdlab: %v: %s", err, out)
	}
	endpoint, version := RunBinary(t, path)
	if "etcd-"+version[:len(module)-len("etcd-")] != module {
		t.Fatalf("etcdlab: the module %s builds %s", module, version)
	}
	return endpoint
}
