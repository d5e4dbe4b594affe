package apiserver

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	noopoteltrace "go.opentelemetry.io/otel/trace/noop"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

func TestTransportID(t *testing.T) {
	lookupOf := func(err error) egressselector.Lookup { // one literal, two networks
		return func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return nil, err }
	}
	lookup := lookupOf(nil)
	base := storagebackend.TransportConfig{
		ServerList: []string{"https://b:2379", "https://a:2379"}, CertFile: "crt", KeyFile: "key", TrustedCAFile: "ca", EgressLookup: lookup,
	}
	id := transportIDOf(base)
	for name, same := range map[string]func(*storagebackend.TransportConfig){
		"equal":                     func(*storagebackend.TransportConfig) {},
		"other order":               func(c *storagebackend.TransportConfig) { c.ServerList = []string{"https://a:2379", "https://b:2379"} },
		"a repetition":              func(c *storagebackend.TransportConfig) { c.ServerList = append(c.ServerList[:2:2], "https://a:2379") },
		"a tracer says nothing":     func(c *storagebackend.TransportConfig) { c.TracerProvider = noopoteltrace.NewTracerProvider() },
		"the same lookup once more": func(c *storagebackend.TransportConfig) { again := lookup; c.EgressLookup = again },
	} {
		tc := base
		same(&tc)
		assert.Equal(t, id, transportIDOf(tc), name)
	}
	for name, other := range map[string]func(*storagebackend.TransportConfig){
		"fewer endpoints":     func(c *storagebackend.TransportConfig) { c.ServerList = c.ServerList[:1] },
		"another scheme":      func(c *storagebackend.TransportConfig) { c.ServerList = []string{"http://b:2379", "https://a:2379"} },
		"another certificate": func(c *storagebackend.TransportConfig) { c.CertFile = "crt2" },
		"another key":         func(c *storagebackend.TransportConfig) { c.KeyFile = "key2" },
		"another CA":          func(c *storagebackend.TransportConfig) { c.TrustedCAFile = "ca2" },
		"no egress":           func(c *storagebackend.TransportConfig) { c.EgressLookup = nil },
		"another egress":      func(c *storagebackend.TransportConfig) { c.EgressLookup = lookupOf(errors.New("another network")) },
	} {
		tc := base
		other(&tc)
		assert.NotEqual(t, id, transportIDOf(tc), name)
	}
	assert.Equal(t, []string{"https://b:2379", "https://a:2379"}, base.ServerList, "the config is not sorted")
	assert.Equal(t, "a:2379,b:2379", id.name())
}
