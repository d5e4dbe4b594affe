package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience decides only how long a broken test hangs.
const patience = 2 * time.Minute

// TestProcess builds the program and uses it as a person would: reads the URL and
// the kubeconfig that it prints, creates, lists and watches over HTTPS, and stops
// it by a signal while the watch is open.
func TestProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		signal os.Signal
		says   string
	}{
		"ours":  {nil, os.Interrupt, "verified by rvfloor"},
		"stock": {[]string{"--stock"}, syscall.SIGTERM, "upstream's own"},
		"trace": {[]string{"--trace", "stdout"}, os.Interrupt, `{"Name":"rvfloor list"`},
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			p := startProcess(t, ctx, temp, tc.args...)
			watch := use(t, ctx, p.url, p.kubeconfig)

			if err := p.cmd.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			if err := watch.Decode(new(any)); err == nil {
				t.Error("the watch went on after the signal")
			}
			p.wait(t)
			if !strings.Contains(strings.Join(p.printed, "\n"), tc.says) {
				t.Errorf("it does not say %q: %q", tc.says, p.printed)
			}
			if name == "trace" {
				wantTrace(t, p.printed)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("it left %v behind, %v", left, err)
			}
		})
	}
}

// use creates a widget as the kubeconfig allows; lists it without a token and
// without checking the certificate (curl -k); and returns a watch that has given it.
func use(t *testing.T, ctx context.Context, url, kubeconfig string) *json.Decoder {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	reader := &http.Client{Transport: transport}
	t.Cleanup(func() { writer.CloseIdleConnections(); transport.CloseIdleConnections() })
	send := func(client *http.Client, method, query, body string, code int) *json.Decoder {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, url+"/apis/demo.rvfloor.dev/v1/namespaces/default/widgets"+query, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		if res.StatusCode != code {
			t.Fatalf("%s %s: %s", method, query, res.Status)
		}
		return json.NewDecoder(res.Body)
	}
	type object struct {
		Metadata struct{ Name string }
		Spec     struct{ Color string }
	}
	var made object
	send(reader, "POST", "", `{}`, 403)
	if err := send(writer, "POST", "", `{"apiVersion":"demo.rvfloor.dev/v1","kind":"Widget","metadata":{"generateName":"w-"},"spec":{"color":"red"}}`, 201).Decode(&made); err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []object }
	if err := send(reader, "GET", "", "", 200).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0] != made || made.Spec.Color != "red" || made.Metadata.Name == "" {
		t.Fatalf("created %+v, listed %+v", made, list.Items)
	}
	watch := send(reader, "GET", "?watch=true", "", 200)
	var event struct {
		Type   string
		Object object
	}
	if err := watch.Decode(&event); err != nil {
		t.Fatal(err)
	}
	if event.Type != "ADDED" || event.Object != made {
		t.Fatalf("watched %+v, want %+v added", event, made)
	}
	return watch
}

// TestVerifiedReadsOff wants both names of it to mean the same.
func TestVerifiedReadsOff(t *testing.T) {
	for flag, want := range map[string]bool{"--stock": true, "--verified-reads=false": true, "--verified-reads": false} {
		if c, err := parse([]string{flag}, io.Discard); err != nil || c.Stock != want {
			t.Errorf("%s: stock is %v, %v, want %v", flag, c.Stock, err, want)
		}
	}
}

// TestCommandLine wants bad input to end with code 2 and one line that names
// the flag and the fix, and help to end with 0.
func TestCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"help":             {[]string{"--help"}, 0, []string{"--data-dir", "--etcd-servers", "--stock", "--port", "--trace", "--verified-reads-zero-version", "-v, --v", "--aggregated", "--authentication-kubeconfig"}},
		"an argument":      {[]string{"start"}, 2, []string{`"start"`, "--help"}},
		"an unknown flag":  {[]string{"--prot", "1"}, 2, []string{"--prot"}},
		"port of letters":  {[]string{"--port", "https"}, 2, []string{"--port", `"https"`}},
		"port too high":    {[]string{"--port", "70000"}, 2, []string{"--port 70000", "use 1 to 65535"}},
		"bad verbosity":    {[]string{"--v", "-1"}, 2, []string{"--v -1", "use 0"}},
		"etcd not an URL":  {[]string{"--etcd-servers", "localhost:2379"}, 2, []string{"--etcd-servers", "http://127.0.0.1:2379"}},
		"data and servers": {[]string{"--data-dir", "x", "--etcd-servers", "http://localhost:2379"}, 2, []string{"--data-dir", "one of the two"}},
		"bad policy":       {[]string{"--verified-reads-zero-version", "Never"}, 2, []string{"--verified-reads-zero-version", "Verified"}},
		"shadow of stock":  {[]string{"--stock", "--verified-reads-shadow"}, 2, []string{"--verified-reads-shadow", "leave out"}},
		"trace to nowhere": {[]string{"--trace", "syslog"}, 2, []string{`--trace "syslog"`, "use stdout or otlp"}},
		"not aggregated":   {[]string{"--client-ca-file", "ca.crt"}, 2, []string{"--client-ca-file", "add --aggregated"}},
		"half a key pair":  {[]string{"--aggregated", "--tls-cert-file", "x"}, 2, []string{"--tls-private-key-file", "give both"}},
		"no address":       {[]string{"--aggregated", "--bind-address", "home"}, 2, []string{"--bind-address"}},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("code %d, want %d", code, tc.code)
			}
			for _, want := range tc.says {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("%q is not in %q", want, stderr.String())
				}
			}
			if tc.code == 2 && strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("more than a line: %q", stderr.String())
			}
			if stdout.Len() > 0 {
				t.Errorf("standard output: %s", &stdout)
			}
		})
	}
}
