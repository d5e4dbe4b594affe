package etcdlab

import (
	"net/http"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// closeMembers stops the members in an order of our own, because etcd's Close is
// made for one member among strangers. It waits for open calls; it hands the
// leadership to a member that may be closing as well, and waits for that; it waits
// for ever where a member was never ready; and it leaves connections between the
// members that end only with a timeout of 5 s.
func (c *Cluster) closeMembers() {
	c.eachMember(func(i int, m *embed.Etcd) {
		select {
		case <-c.calls[i].end():
			m.Server.HardStop() // sound, because no call is inside any more
		case <-time.After(m.Server.Cfg.ReqTimeout()):
			// A call that does not heed its context, such as a snapshot that nobody
			// reads. etcd's Close breaks its connection.
		}
	})
	// Now no member asks another anything, so what is left of their connections is
	// idle: nothing that the Close of one of them could wait for.
	c.eachMember(func(_ int, m *embed.Etcd) { closeIdlePeerConnections(m.Server) })
	c.eachMember(func(i int, m *embed.Etcd) {
		m.Close()
		<-c.calls[i].end()
	})
}

// eachMember runs f for all members at the same time, and waits.
func (c *Cluster) eachMember(f func(int, *embed.Etcd)) {
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() { f(i, m) })
	}
	wg.Wait()
}

// closeIdlePeerConnections closes the connections of the HTTP client with which a
// member asks others for their versions. etcd never does, and has no way to reach
// the client, hence the look into its private field. Without it (a later etcd may
// rename the field) Close returns some seconds before the last goroutines end, and
// the tests of this package fail.
func closeIdlePeerConnections(s *etcdserver.EtcdServer) {
	field := reflect.ValueOf(s).Elem().FieldByName("peerRt")
	if !field.IsValid() {
		return
	}
	if rt, ok := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface().(*http.Transport); ok {
		rt.CloseIdleConnections()
	}
}
