package apiserver

import (
	"slices"
	"strings"
	"unsafe"

	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// transportID tells transports apart: where it is equal, the same servers are reached by the same road with the same
// credentials, so floors, clients and the compactor may be shared. Where it is not certain, IDs differ: a floor of
// another cluster would break the promise, a client too many costs a connection.
type transportID struct {
	endpoints     string // sorted, without repetitions: the order says nothing about the cluster
	cert, key, ca string // the files' names: their content may be rotated under the same credentials
	egress        unsafe.Pointer
}

// transportIDOf does not look at the TracerProvider, which says nothing about the servers.
func transportIDOf(tc storagebackend.TransportConfig) transportID {
	endpoints := slices.Clone(tc.ServerList)
	slices.Sort(endpoints)
	return transportID{
		endpoints: strings.Join(slices.Compact(endpoints), ","),
		cert:      tc.CertFile,
		key:       tc.KeyFile,
		ca:        tc.TrustedCAFile,
		egress:    closureOf(tc.EgressLookup),
	}
}

// closureOf answers the address of what a function value stands for: its code and what it has captured. Two lookups made
// from one function literal (or one method of two selectors) may dial through different proxies into different networks,
// where the same endpoints are other clusters; reflect's Pointer knows their common code only.
func closureOf(lookup egressselector.Lookup) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&lookup))
}

// name is how metrics and logs call the transport: its endpoints without their schemes.
func (id transportID) name() string {
	names := strings.Split(id.endpoints, ",")
	for i, name := range names {
		if _, host, ok := strings.Cut(name, "://"); ok {
			names[i] = host
		}
	}
	return strings.Join(names, ",")
}
