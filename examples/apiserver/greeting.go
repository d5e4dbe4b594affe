package main

import (
	"fmt"
	"io"

	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// greet prints where the server is and three lines to try. The first line is
// for programs that start this one: "Serving on <URL>" and nothing after it.
func greet(w io.Writer, r *server.Running, o server.Options) {
	widgets := fmt.Sprintf("%s/apis/%s/namespaces/default/widgets", r.URL, demo.GroupVersion)
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
	fmt.Fprintf(w, `Serving on %s
Note: %s; %s.
Note: there is no authentication: who can reach 127.0.0.1 on this machine may do everything.

Create:
  curl -k %s -H 'Content-Type: application/json' -d '{"apiVersion":"%s","kind":"Widget","metadata":{"generateName":"w-"},"spec":{"color":"red"}}'
List:
  curl -k %s
Watch:
  curl -kN '%s?watch=true'

Ctrl-C stops it.
`, r.URL, reads, data, widgets, demo.GroupVersion, widgets, widgets)
}
