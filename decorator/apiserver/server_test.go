package apiserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	etcd3metrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	restclient "k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	openapicommon "k8s.io/kube-openapi/pkg/common"
)

const podsPath = "/apis/example.apiserver.k8s.io/v1/namespaces/ns/pods"

// apiServer is a generic API server with flags. "admin" may do everything; who has no name may not see
// the debug page.
type apiServer struct {
	url      string
	client   *http.Client
	backends *Backends
	// stop is the graceful shutdown, which answers when the server has let go of everything. Idempotent.
	stop func()
}

// applied is a server's config after the flags have been parsed and applied, with its etcd options before.
func applied(args ...string) (*genericserver.Config, *Backends, error) {
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	etcd := options.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", codecs.LegacyCodec(examplev1.SchemeGroupVersion)))
	etcd.SkipHealthEndpoints = true
	verified := NewOptions()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	etcd.AddFlags(flags)
	verified.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	cfg := genericserver.NewConfig(codecs)
	if err := etcd.ApplyTo(cfg); err != nil {
		return nil, nil, err
	}
	// The etcd options leave behind, for the whole process, what dials this etcd whenever metrics are gathered.
	etcd3metrics.SetStorageMonitorGetter(func() ([]etcd3metrics.Monitor, error) { return nil, nil })
	backends, err := verified.ApplyTo(cfg, etcd)
	return cfg, backends, err
}

// serve runs a server of pods and services until the test ends.
func serve(t *testing.T, args ...string) *apiServer {
	t.Helper()
	cfg, backends, err := applied(args...)
	require.NoError(t, err)
	cfg.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg.SecureServing = &genericserver.SecureServingInfo{Listener: listener, Cert: certificate(), DisableHTTP2: true}
	cfg.ExternalAddress = listener.Addr().String()
	cfg.LoopbackClientConfig = &restclient.Config{}
	cfg.ShutdownWatchTerminationGracePeriod = wait
	cfg.MaxRequestsInFlight, cfg.MaxMutatingRequestsInFlight = 0, 0 // no limit
	cfg.SkipOpenAPIInstallation = true
	cfg.OpenAPIV3Config = genericserver.DefaultOpenAPIV3Config(
		func(openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition { return nil },
		openapi.NewDefinitionNamer(newScheme()))
	cfg.OpenAPIV3Config.IgnorePrefixes = []string{"/apis"} // the example types have no schemas
	cfg.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name := r.Header.Get("Test-User")
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
	})
	cfg.Authorization.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetPath() == DebugPath && a.GetUser().GetName() != "admin" {
			return authorizer.DecisionDeny, "", nil
		}
		return authorizer.DecisionAllow, "", nil
	})
	server, err := cfg.Complete(nil).New("test", genericserver.NewEmptyDelegate())
	require.NoError(t, err)
	storages := map[string]rest.Storage{}
	for _, resource := range []string{"pods", "services"} {
		storages[resource], err = tryRegistry(resource, cfg.RESTOptionsGetter)
		require.NoError(t, err)
	}
	group := genericserver.NewDefaultAPIGroupInfo(example.GroupName, newScheme(), metav1.ParameterCodec, serializer.NewCodecFactory(newScheme()))
	group.VersionedResourcesStorageMap["v1"] = storages
	require.NoError(t, server.InstallAPIGroup(&group))

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	prepared := server.PrepareRun()
	s := &apiServer{url: "https://" + cfg.ExternalAddress, backends: backends}
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	go func() { ended <- prepared.RunWithContext(ctx) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		s.client.CloseIdleConnections()
		assert.NoError(t, <-ended)
		assert.Empty(t, backends.connected(), "the server's Destroy lets go of everything")
		assert.NoError(t, backends.Close())
	}
	t.Cleanup(s.stop)
	return s
}

// certificate is made once: all servers show it.
var certificate = sync.OnceValue(func() dynamiccertificates.CertKeyContentProvider {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		panic(err)
	}
	content, err := dynamiccertificates.NewStaticCertKeyContent("test", cert, key)
	if err != nil {
		panic(err)
	}
	return content
})

type answer struct {
	code   int
	body   string
	header http.Header
}

// do is a request of "admin".
func (s *apiServer) do(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	a, err := s.try(t.Context(), method, path, body, header...)
	require.NoError(t, err)
	return a
}

func (s *apiServer) try(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Test-User", "admin")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(read), res.Header}, err
}

// debug is the JSON of the debug page.
func (s *apiServer) debug(t *testing.T) (status debugStatus) {
	t.Helper()
	a := s.do(t, "GET", DebugPath, "", "Accept", "application/json")
	require.Equal(t, http.StatusOK, a.code, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), &status))
	return status
}

// ready waits until the server answers reads.
func (s *apiServer) ready(t *testing.T) *apiServer {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, path := range []string{"/readyz", podsPath} { // until etcd was looked at, reads may be answered past the cache
			if a, err := s.try(t.Context(), "GET", path, ""); err != nil || a.code != http.StatusOK {
				return false
			}
		}
		return true
	}, wait, tick)
	return s
}

func createPod(t *testing.T, s *apiServer, name string) {
	t.Helper()
	body, err := runtime.Encode(serializer.NewCodecFactory(newScheme()).LegacyCodec(examplev1.SchemeGroupVersion), pod("ns", name))
	require.NoError(t, err)
	a := s.do(t, "POST", podsPath, string(body), "Content-Type", "application/json")
	require.Equal(t, http.StatusCreated, a.code, a.body)
}
