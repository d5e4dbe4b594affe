package apiserver

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// Each flag, and what it changes in the JSON of the debug page.
func TestFlags(t *testing.T) {
	etcd := startEtcd(t)
	resources := func(s debugStatus) (names []string) {
		for _, b := range s.Backends {
			for _, r := range b.Resources {
				names = append(names, r.Resource)
			}
		}
		return names
	}
	policy := func(s debugStatus) decorator.PolicyStatus { return s.Backends[0].Policy }
	defaults := decorator.PolicyStatus{ZeroVersion: "Verified", OnUnverified: "Quorum", MaxWaitSeconds: 3, ReadyWaitSeconds: .2, PulseSeconds: 60}
	with := func(change func(*decorator.PolicyStatus)) decorator.PolicyStatus {
		p := defaults
		change(&p)
		return p
	}
	modeFile := filepath.Join(t.TempDir(), "mode")
	require.NoError(t, os.WriteFile(modeFile, []byte("shadow\n"), 0o600))
	effects := map[string]func(*testing.T, debugStatus){
		"": func(t *testing.T, s debugStatus) {
			assert.Equal(t, defaults, policy(s))
			assert.Equal(t, decorator.ModeVerify, s.Mode)
			assert.Equal(t, []string{"pods", "services"}, resources(s))
			b := s.Backends[0]
			assert.Equal(t, "etcd key /registry/rvfloor/sentinel", b.Source)
			assert.Equal(t, "/registry/rvfloor/sentinel", b.SentinelKey)
			assert.Equal(t, defaultEtcdClients, b.EtcdClients)
			assert.NotContains(t, b.Strategy.Reason, "Config.Strategy", "the backend decides")
		},
		"--verified-reads-zero-version=AsIs": func(t *testing.T, s debugStatus) {
			assert.Equal(t, with(func(p *decorator.PolicyStatus) { p.ZeroVersion = "AsIs" }), policy(s))
		},
		"--verified-reads-zero-version=Bounded --verified-reads-max-staleness=90s": func(t *testing.T, s debugStatus) {
			assert.Equal(t, with(func(p *decorator.PolicyStatus) { p.ZeroVersion, p.MaxStalenessSeconds = "Bounded", 90 }), policy(s))
		},
		"--verified-reads-on-unverified=Direct": func(t *testing.T, s debugStatus) {
			assert.Equal(t, with(func(p *decorator.PolicyStatus) { p.OnUnverified = "Direct" }), policy(s))
		},
		"--verified-reads-max-wait=100ms --verified-reads-ready-wait=5ms": func(t *testing.T, s debugStatus) {
			assert.Equal(t, with(func(p *decorator.PolicyStatus) { p.MaxWaitSeconds, p.ReadyWaitSeconds = .1, .005 }), policy(s))
		},
		"--verified-reads-cached-gets": func(t *testing.T, s debugStatus) {
			assert.Equal(t, with(func(p *decorator.PolicyStatus) { p.CachedGets = true }), policy(s))
		},
		"--verified-reads-pulse=1s": func(t *testing.T, s debugStatus) {
			assert.Equal(t, with(func(p *decorator.PolicyStatus) { p.PulseSeconds = 1 }), policy(s))
			before, err := etcd.Get(t.Context(), "/registry/rvfloor/sentinel")
			require.NoError(t, err)
			written := <-etcd.Watch(t.Context(), "/registry/rvfloor/sentinel", clientv3.WithRev(before.Header.Revision+1))
			assert.NoError(t, written.Err())
			assert.Len(t, written.Events, 1)
		},
		"--verified-reads-pulse=0": func(t *testing.T, s debugStatus) {
			assert.Equal(t, with(func(p *decorator.PolicyStatus) { p.PulseSeconds = 0 }), policy(s))
		},
		"--verified-reads-strategy=request": func(t *testing.T, s debugStatus) {
			assert.Equal(t, decorator.StrategyStatus{Name: "request", Reason: "set by Config.Strategy"}, s.Backends[0].Strategy)
		},
		"--verified-reads-shadow": func(t *testing.T, s debugStatus) {
			assert.Equal(t, decorator.ModeShadow, s.Mode)
			assert.Equal(t, decorator.ModeShadow, s.Backends[0].Mode)
		},
		"--verified-reads-mode-file=" + modeFile: func(t *testing.T, s debugStatus) {
			assert.Equal(t, &modeFileStatus{Path: modeFile, Mode: decorator.ModeShadow}, s.ModeFile)
			assert.Equal(t, decorator.ModeShadow, s.Mode)
			assert.Equal(t, decorator.ModeShadow, s.Backends[0].Mode)
		},
		"--verified-reads-etcd-clients=3": func(t *testing.T, s debugStatus) { assert.Equal(t, 3, s.Backends[0].EtcdClients) },
		"--verified-reads-sentinel-key=/elsewhere/sentinel": func(t *testing.T, s debugStatus) {
			assert.Equal(t, "/elsewhere/sentinel", s.Backends[0].SentinelKey)
			found, err := etcd.Get(t.Context(), "/elsewhere/sentinel")
			require.NoError(t, err)
			assert.EqualValues(t, 1, found.Count)
		},
		"--verified-reads-sentinel-key= --etcd-prefix=/other": func(t *testing.T, s debugStatus) {
			assert.Empty(t, s.Backends[0].SentinelKey)
			assert.Contains(t, s.Backends[0].Source, "not written")
			found, err := etcd.Get(t.Context(), "/other/rvfloor/sentinel")
			require.NoError(t, err)
			assert.Zero(t, found.Count)
		},
		"--verified-reads-resources=pods.example.apiserver.k8s.io": func(t *testing.T, s debugStatus) {
			assert.Equal(t, []string{"pods"}, resources(s))
			assert.Equal(t, []string{"pods.example.apiserver.k8s.io"}, s.Resources)
		},
		"--verified-reads-except-resources=example.apiserver.k8s.io/pods,secrets": func(t *testing.T, s debugStatus) {
			assert.Equal(t, []string{"services"}, resources(s))
			assert.Equal(t, []string{"pods.example.apiserver.k8s.io", "secrets"}, s.ExceptResources)
		},
		"--verified-reads=false": func(t *testing.T, s debugStatus) {
			assert.Equal(t, decorator.ModeOff, s.Mode)
			assert.Contains(t, s.Note, "--verified-reads=false")
			assert.Empty(t, s.Backends)
		},
		"--watch-cache=false": func(t *testing.T, s debugStatus) { assert.Empty(t, s.Backends) },
		"--watch-cache-sizes=services.example.apiserver.k8s.io#0": func(t *testing.T, s debugStatus) { assert.Equal(t, []string{"pods"}, resources(s)) },
	}
	everyFlag(t, maps.Keys(effects))
	for args, check := range effects {
		t.Run(args, func(t *testing.T) {
			s := serve(t, append(strings.Fields(args), "--etcd-servers="+etcd.Endpoints()[0])...).ready(t)
			check(t, s.debug(t))
		})
	}
}

// What the policies do to a read over HTTP when etcd does not answer any more.
func TestPoliciesOverHTTP(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{Proxy: true})
	const zero = podsPath + "?resourceVersion=0"
	for args, check := range map[string]func(*testing.T, *apiServer){
		"": func(t *testing.T, s *apiServer) {
			a := s.do(t, "GET", zero, "")
			assert.Equal(t, http.StatusGatewayTimeout, a.code, a.body)
			assert.Equal(t, "1", a.header.Get("Retry-After"))
			a = s.do(t, "GET", "/readyz/rvfloor", "")
			assert.Equal(t, http.StatusInternalServerError, a.code, "no floor can be read: %s", a.body)
			b := s.debug(t).Backends[0]
			assert.True(t, b.Failing)
			require.NotNil(t, b.Resources[0].LastError)
			assert.Contains(t, b.Resources[0].LastError.Message, "revision")
			cluster.Proxy(0).Release()
			assert.Equal(t, http.StatusOK, s.do(t, "GET", "/readyz/rvfloor", "").code, "it finds out by itself")
			assert.False(t, s.debug(t).Backends[0].Failing)
		},
		"--verified-reads-zero-version=AsIs": func(t *testing.T, s *apiServer) {
			assert.Equal(t, http.StatusOK, s.do(t, "GET", zero, "").code)
		},
		"--verified-reads-zero-version=Bounded --verified-reads-max-staleness=1h": func(t *testing.T, s *apiServer) {
			assert.Equal(t, http.StatusOK, s.do(t, "GET", zero, "").code)
		},
		"--verified-reads-shadow": func(t *testing.T, s *apiServer) {
			a := s.do(t, "GET", zero, "")
			assert.Equal(t, http.StatusOK, a.code)
			assert.Empty(t, a.header.Get("Warning"))
		},
		"--verified-reads-on-unverified=Stale": func(t *testing.T, s *apiServer) {
			a := s.do(t, "GET", zero, "")
			assert.Equal(t, http.StatusOK, a.code)
			assert.Contains(t, a.header.Get("Warning"), "stale")
		},
		"--verified-reads-cached-gets": func(t *testing.T, s *apiServer) {
			a := s.do(t, "GET", podsPath+"/a", "")
			assert.Contains(t, a.body, "rvfloor: ", "a get asks for a floor")
		},
		"--verified-reads-except-resources=example.apiserver.k8s.io/pods": func(t *testing.T, s *apiServer) {
			assert.Equal(t, http.StatusOK, s.do(t, "GET", zero, "").code)
		},
	} {
		t.Run(args, func(t *testing.T) {
			s := serve(t, append(strings.Fields(args), "--etcd-servers="+cluster.Endpoints()[0], "--verified-reads-max-wait=300ms")...).ready(t)
			require.Eventually(t, func() bool { return s.do(t, "GET", zero, "").code == http.StatusOK }, wait, tick)
			cluster.Proxy(0).Hold()
			defer cluster.Proxy(0).Release()
			check(t, s)
		})
	}
}

// Bad values and contradictions are refused before anything is connected, with what to write instead.
func TestFlagsRefuse(t *testing.T) {
	dir := t.TempDir()
	refused := map[string]string{
		"--verified-reads-zero-version=verified":                                   "--verified-reads-zero-version=verified: use one of Verified, Bounded, AsIs",
		"--verified-reads-on-unverified=":                                          "--verified-reads-on-unverified=: use one of Quorum, Fail, Direct, Stale",
		"--verified-reads-strategy=luck":                                           "--verified-reads-strategy=luck: use one of auto, request, nudge, range-proof, write, direct",
		"--verified-reads-max-wait=0":                                              "--verified-reads-max-wait=0s: use a duration above 0, such as 3s",
		"--verified-reads-ready-wait=-1s":                                          "--verified-reads-ready-wait=-1s: use a duration above 0, such as 200ms",
		"--verified-reads-zero-version=Bounded --verified-reads-max-staleness=-1s": "--verified-reads-max-staleness=-1s: use a duration above 0, such as 10s",
		"--verified-reads-zero-version=Bounded":                                    "--verified-reads-zero-version=Bounded needs --verified-reads-max-staleness: set it",
		"--verified-reads-max-staleness=5s":                                        "--verified-reads-max-staleness has no effect with --verified-reads-zero-version=Verified: leave it out, or use --verified-reads-zero-version=Bounded",
		"--verified-reads-pulse=10ms":                                              "--verified-reads-pulse=10ms: use 0 for none, or a duration of 1s or more",
		"--verified-reads-pulse=-1m":                                               "--verified-reads-pulse=-1m0s: use 0 for none",
		"--verified-reads-etcd-clients=0":                                          "--verified-reads-etcd-clients=0: use 1 or more",
		"--verified-reads-sentinel-key=sentinel":                                   `--verified-reads-sentinel-key=sentinel: use a key such as /registry/rvfloor/sentinel, or ""`,
		"--verified-reads-sentinel-key=/a/../b":                                    "use a key such as",
		"--verified-reads=false --verified-reads-shadow":                           "--verified-reads-shadow has no effect with --verified-reads=false: leave out one",
		"--verified-reads-resources=a --verified-reads-except-resources=b":         "--verified-reads-resources and --verified-reads-except-resources contradict each other: use one",
		"--verified-reads-resources=a/b/c":                                         `--verified-reads-resources: "a/b/c" is no resource: use resource[.group] or group/resource`,
		"--verified-reads-except-resources=*":                                      `--verified-reads-except-resources: "*" is no resource`,
		"--verified-reads-resources=v1/pods":                                       "without a version, such as pods",
		"--verified-reads-resources=deployments.v1.apps":                           "without a version",
		"--verified-reads-resources=Pods":                                          `"Pods" is no resource`,
		"--verified-reads-resources=apps/":                                         `"apps/" is no resource`,
		"--verified-reads-resources=pods --watch-cache=false":                      "--verified-reads-resources has no effect with --watch-cache=false",
		"--verified-reads-resources=pods --watch-cache-sizes=pods#0":               "--verified-reads-resources=pods has no effect with --watch-cache-sizes=pods#0",
		"--verified-reads-resources=pods --watch-cache-sizes=pods":                 "--watch-cache-sizes: use resource[.group]#size",
		"--verified-reads=yes":                                                     `"yes": invalid syntax: use true or false`,
		"--verified-reads-max-wait=3":                                              `"3": use a duration, such as 3s`,
		"--verified-reads-max-staleness=soon":                                      `invalid argument "soon" for "--verified-reads-max-staleness" flag: time: invalid duration "soon": use a duration`,
		"--verified-reads-etcd-clients=two":                                        "use a whole number",
		"--verified-reads-cached-gets=2":                                           "use true or false",
		"--verified-reads-shadow=maybe":                                            "use true or false",
		`--verified-reads-resources=pods"`:                                         "use names with commas between them",
		"--verified-reads=false --verified-reads-mode-file=/x":                     "--verified-reads-mode-file has no effect with --verified-reads=false: leave out one",
		"--verified-reads-shadow --verified-reads-mode-file=/x":                    "--verified-reads-mode-file and --verified-reads-shadow contradict each other",
		"--verified-reads-mode-file=" + dir + "/none":                              "/none: no such file or directory: write one of the words verify, shadow, off into it",
		"--verified-reads-mode-file=" + dir:                                        "is a directory: write one of the words",
	}
	everyFlag(t, maps.Keys(refused))
	for args, want := range refused {
		_, _, err := applied(append(strings.Fields(args), "--etcd-servers=http://etcd.invalid:2379")...)
		assert.ErrorContains(t, err, want, args)
	}
	for _, args := range []string{
		"--verified-reads-resources=/pods,apps/deployments,jobs.batch,widgets.v8engines.io", "--verified-reads-except-resources=demo.rvfloor.dev/widgets",
		"--verified-reads-resources=pods --watch-cache-sizes=pods#1,events#0", "--verified-reads-sentinel-key=",
	} {
		_, _, err := applied(append(strings.Fields(args), "--etcd-servers=http://etcd.invalid:2379")...)
		assert.NoError(t, err, args)
	}
	_, err := NewOptions().ApplyTo(newServerConfig(), nil)
	assert.ErrorContains(t, err, "apply the etcd options")
}

// everyFlag fails the test for a flag that none of the command lines has: whoever adds one shows what it does, and what
// becomes of a bad value.
func everyFlag(t *testing.T, lines iter.Seq[string]) {
	t.Helper()
	tested := map[string]bool{}
	for line := range lines {
		for arg := range strings.FieldsSeq(line) {
			name, _, _ := strings.Cut(arg, "=")
			tested[name] = true
		}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	NewOptions().AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		assert.True(t, tested["--"+f.Name], "no case has --%s", f.Name)
	})
}

// The defaults that --help shows are those that a zero Config stands for.
func TestFlagDefaults(t *testing.T) {
	o := NewOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		assert.True(t, f.Name == flagEnabled || strings.HasPrefix(f.Name, flagEnabled+"-"), f.Name)
		assert.NotEmpty(t, f.Usage)
	})
	usage := flags.FlagUsages()
	assert.NotContains(t, usage, "(default 0s)")
	assert.NotContains(t, usage, "(default [])")
	assert.Contains(t, usage, "(default 200ms)")
	assert.Empty(t, o.Validate())

	etcd := startEtcd(t)
	policies := map[decorator.PolicyStatus]bool{}
	for _, cfg := range []Config{{}, o.Config} {
		b := newBackends(t, cfg)
		r, err := b.open(podSpec(storageConfig(etcd.Endpoints()...), podPrefix))
		require.NoError(t, err)
		policies[r.transport.backend.Status().Policy] = true
		assert.Equal(t, o.Config.EtcdClients, len(r.transport.clients.shared))
	}
	assert.Len(t, policies, 1)
}

// When a server stops its watches end, and what it destroys then is all that there was (see serve): the last storage takes
// the clients along.
func TestShutdown(t *testing.T) {
	etcd := startEtcd(t)
	s := serve(t, "--etcd-servers="+etcd.Endpoints()[0]).ready(t)
	ended := make(chan error, 1)
	open := make(chan struct{})
	go func() {
		r, err := http.NewRequestWithContext(context.Background(), "GET", s.url+podsPath+"?watch=true", nil)
		if err != nil {
			ended <- err
			return
		}
		res, err := s.client.Do(r)
		if err != nil {
			ended <- err
			return
		}
		defer res.Body.Close()
		close(open)
		_, err = res.Body.Read(make([]byte, 1))
		ended <- err
	}()
	<-open
	transport := s.backends.connected()[0]
	s.stop()
	assert.ErrorContains(t, <-ended, "EOF")
	assert.Error(t, transport.clients.floor.Ctx().Err(), "the client is closed")
}
