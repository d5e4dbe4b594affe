package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rvfloor/rvfloor/examples/kine/process"
)

// patience bounds what is waited for. It only decides how long a broken test hangs.
const patience = time.Minute

func TestMain(m *testing.M) {
	process.MaybeKine()
	os.Exit(m.Run())
}

// TestProgram is what a person would do with it: write to one API server, read from the
// other, kill a kine, read again, stop.
func TestProgram(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	t.Setenv("TMPDIR", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	page, stdout := io.Pipe()
	told, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--processes", "2"}, stdout, stderr)
		stdout.Close()
		stderr.Close()
	}()
	said := make(chan string, 100) // on standard error
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(told); lines.Scan(); {
			said <- lines.Text()
		}
	}()

	var clients []*http.Client
	var urls []string
	var kine int
	lines := bufio.NewScanner(page)
	for lines.Scan() && lines.Text() != "Ctrl-C stops it." {
		if url, ok := strings.CutPrefix(lines.Text(), "Serving on "); ok {
			urls = append(urls, url+"/apis/demo.rvfloor.dev/v1/namespaces/default/widgets")
		}
		if file, ok := strings.CutPrefix(lines.Text(), "Kubeconfig "); ok {
			clients = append(clients, client(t, file))
		}
		if strings.HasPrefix(strings.TrimSpace(lines.Text()), "kill -9") {
			fmt.Sscanf(strings.TrimSpace(lines.Text()), "kill -9 %d", &kine) // the last
		}
	}
	if len(urls) != 2 || len(clients) != 2 || kine == 0 {
		t.Fatalf("the page does not have two servers: %q, kine %d", urls, kine)
	}
	create := func(name string) {
		body := fmt.Sprintf(`{"apiVersion":"demo.rvfloor.dev/v1","kind":"Widget","metadata":{"name":%q},"spec":{"color":"red"}}`, name)
		if code, got := ask(t, clients[0], http.MethodPost, urls[0], body); code != http.StatusCreated {
			t.Fatalf("create: %d %s", code, got)
		}
	}
	// What the first has acknowledged, the second answers, at once or when it can again.
	listed := func(name string) {
		t.Helper()
		for began := time.Now(); ; {
			code, got := ask(t, clients[1], http.MethodGet, urls[1], "")
			if code == http.StatusOK && strings.Contains(got, name) {
				return
			}
			if code == http.StatusOK || time.Since(began) > patience {
				t.Fatalf("LIST without %s: %d %s", name, code, got)
			}
		}
	}
	create("before")
	listed("before")
	if err := syscall.Kill(kine, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	create("meanwhile")
	listed("meanwhile")
	for line := range said {
		if strings.HasPrefix(line, "kine 0") {
			t.Errorf("nobody killed it: %s", line)
		}
		if strings.HasSuffix(line, "serves") {
			break
		}
	}
	listed("meanwhile")

	stop()
	go io.Copy(io.Discard, page)
	for line := range said {
		t.Errorf("on standard error, while it stopped: %s", line)
	}
	if status := <-ended; status != 0 {
		t.Errorf("exit status %d", status)
	}
	for _, c := range clients {
		c.CloseIdleConnections()
	}
	// Upstream starts this one once per process, for good: /healthz/log.
	goleak.VerifyNone(t, leaks, goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Forever"))
}

// client is a client with the rights of a kubeconfig.
func client(t *testing.T, kubeconfig string) *http.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(t *testing.T, c *http.Client, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(got)
}

func TestUnusable(t *testing.T) {
	for want, args := range map[string][]string{
		"--processes 3": {"--processes", "3"},
		"share no":      {"--processes", "2", "--dsn", "memory://"},
		"no flag":       {"start"},
		"unknown flag":  {"--nonsense"},
	} {
		var stderr strings.Builder
		if status := run(t.Context(), args, io.Discard, &stderr); status != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: status %d, %q; want 2 and %q", args, status, stderr.String(), want)
		}
	}
}

// TestNoDatabase: kine that cannot serve says why.
func TestNoDatabase(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var stderr strings.Builder
	if status := run(t.Context(), []string{"--dsn", "nonsense://"}, io.Discard, &stderr); status != 1 || !strings.Contains(stderr.String(), "log ends") {
		t.Errorf("status %d, %q", status, stderr.String())
	}
}
