package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// TestAnonymousReads wants reads to need nothing, and writes the token.
func TestAnonymousReads(t *testing.T) {
	c := start(t, server.Options{})
	as := func(token string) *caller {
		config := rest.AnonymousClientConfig(c.ClientConfig)
		config.BearerToken = token
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseIdleConnections)
		return &caller{Running: c.Running, http: client}
	}
	anonymous, wrong := as(""), as("guessed")

	c.must(t, 201, post(widgets, object("Widget", "a", "", `{}`)))
	if got := anonymous.must(t, 200, request{Method: "GET", Path: widgets}).names(); !equal(got, []string{"a"}) {
		t.Errorf("without a token the list is %v", got)
	}
	anonymous.must(t, 200, request{Method: "GET", Path: "/openapi/v3"})
	anonymous.must(t, 403, post(widgets, object("Widget", "b", "", `{}`)))
	anonymous.must(t, 403, request{Method: "DELETE", Path: widgets + "/a"})
	anonymous.must(t, 403, request{Method: "GET", Path: "/debug/pprof/heap"}) // it would hold the token

	// Anybody may look at rvfloor's page; who has the token may switch it off.
	page := request{Method: "GET", Path: "/debug/rvfloor", Accept: "application/json"}
	off := post(page.Path, `{"mode":"off"}`)
	if got := text(anonymous.must(t, 200, page).Body, "mode"); got != "verify" {
		t.Errorf("the page says that the mode is %q", got)
	}
	anonymous.must(t, 403, off)
	c.must(t, 200, off)
	if got := text(anonymous.must(t, 200, page).Body, "mode"); got != "off" {
		t.Errorf("switched off, the mode is %q", got)
	}
	wrong.must(t, 401, request{Method: "GET", Path: widgets})
}

// TestKubeconfig wants the file to be for its owner alone, to say what
// ClientConfig says, and to be there as long as the data.
func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		options server.Options
		stays   bool
	}{
		"a folder":    {server.Options{DataDir: dir}, true},
		"a temporary": {server.Options{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			running, err := server.Start(t.Context(), tc.options)
			if err != nil {
				t.Fatal(err)
			}
			stop := func() {
				if err := running.Stop(); err != nil {
					t.Error(err)
				}
			}
			defer stop()
			if info, err := os.Stat(running.Kubeconfig); err != nil {
				t.Error(err)
			} else if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has the mode %v", running.Kubeconfig, info.Mode())
			}
			config, err := clientcmd.BuildConfigFromFlags("", running.Kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != running.URL || config.BearerToken == "" || config.BearerToken != running.ClientConfig.BearerToken {
				t.Errorf("the kubeconfig is for %s", config.Host)
			}
			stop()
			if _, err := os.Stat(running.Kubeconfig); (err == nil) != tc.stays {
				t.Errorf("after the end: %v, want it to stay: %v", err, tc.stays)
			}
			if tc.stays && running.Kubeconfig != filepath.Join(dir, "kubeconfig") {
				t.Errorf("it is %s", running.Kubeconfig)
			}
		})
	}
}
