package main

import (
	"fmt"
	"io"

	rvapiserver "github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// greet prints where the server is and what to try. Two lines are for programs
// that start this one: "Serving on <URL>" and "Kubeconfig <file>", with nothing
// else on them.
func greet(w io.Writer, r *server.Running, o server.Options) {
	reads := "reads are verified by rvfloor"
	if o.Stock {
		reads = "reads are upstream's own (--stock)"
	}
	data := "objects are gone at exit (--data-dir keeps them)"
	switch {
	case o.DataDir != "":
		data = "objects are kept in " + o.DataDir
	case len(o.EtcdServers) > 0:
		data = "objects are kept in the etcd of --etcd-servers"
	}
	fmt.Fprintf(w, "Serving on %s\n", r.URL)
	if o.Aggregation != nil {
		fmt.Fprintf(w, `Note: %s; %s.
Note: the kube-apiserver says who callers are and what they may do.

Ctrl-C stops it.
`, reads, data)
		return
	}
	kubectl := "kubectl --kubeconfig '" + r.Kubeconfig + "'"
	widgets := fmt.Sprintf("%s/apis/%s/namespaces/default/widgets", r.URL, demo.GroupVersion)
	fmt.Fprintf(w, `Kubeconfig %[1]s
Note: %[2]s; %[3]s.
Note: who can reach 127.0.0.1 on this machine may read; to write takes the token in the kubeconfig.

With kubectl (or "go run ./examples/kubectl", which is one):
  %[4]s get widgets --watch
  %[4]s apply --filename examples/apiserver/samples
  %[4]s get widgets --field-selector spec.color=red
  %[4]s explain machines.spec

With curl:
  curl -k %[5]s
  curl -kN '%[5]s?watch=true'
  curl -k %[7]s%[8]s    # or in a browser: what rvfloor does
  curl -k %[5]s -H "Authorization: Bearer $(sed -n 's/^ *token: //p' '%[1]s')" -H 'Content-Type: application/json' -d '{"apiVersion":"%[6]s","kind":"Widget","metadata":{"generateName":"w-"},"spec":{"color":"red"}}'

Ctrl-C stops it.
`, r.Kubeconfig, reads, data, kubectl, widgets, demo.GroupVersion, r.URL, rvapiserver.DebugPath)
}
