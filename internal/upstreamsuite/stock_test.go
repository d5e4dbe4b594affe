package upstreamsuite

import "testing"

// TestStock is the control: what fails here is the suite's fault or upstream's.
func TestStock(t *testing.T) { Run(t, stockSetup) }

func BenchmarkStock(b *testing.B) {
	Benchmark(b, Size{Namespaces: 10, PodsPerNamespace: 100, Nodes: 50}, stockSetup)
}

func stockSetup(t testing.TB, opts SetupOptions) Setup {
	etcd := StartEtcd(t)
	return Setup{Store: NewCache(t, NewRaw(t, etcd.NewClient(t), opts), opts), Etcd: etcd}
}
