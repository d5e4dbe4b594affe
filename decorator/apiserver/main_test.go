package apiserver

import (
	"os"
	"testing"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestMain lets the test binary be a member of a cluster of processes.
func TestMain(m *testing.M) {
	etcdlab.MaybeMember()
	os.Exit(m.Run())
}
