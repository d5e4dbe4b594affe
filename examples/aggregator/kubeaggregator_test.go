package aggregator

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	kubeaggregator "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-aggregator/pkg/generated/openapi"
)

// startAggregator runs kube-aggregator over an etcd, with one Service in the
// cluster, behind which is backend (https://address:port). Tokens are the names of
// users. It returns a client configuration without a user.
func startAggregator(t *testing.T, etcd []string, front frontProxy, service *corev1.Service, backend string) *rest.Config {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := genericserver.NewRecommendedConfig(aggregatorscheme.Codecs)
	cfg.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	cfg.MergedResourceConfig = kubeaggregator.DefaultAPIResourceConfigSource()
	namer := openapinamer.NewDefinitionNamer(aggregatorscheme.Scheme)
	cfg.OpenAPIConfig = genericserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	cfg.OpenAPIV3Config = genericserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	cfg.SkipOpenAPIInstallation = true // kube-aggregator merges it with that of its backends

	serving := genericoptions.NewSecureServingOptions()
	serving.Listener = listener
	serving.BindAddress = net.IPv4(127, 0, 0, 1)
	serving.ServerCert.CertDirectory, serving.ServerCert.PairName = "", ""
	check(t, serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{serving.BindAddress}))
	check(t, serving.WithLoopback().ApplyToConfig(&cfg.Config))

	storage := storagebackend.NewDefaultConfig("/aggregator", aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion))
	storage.EncodeVersioner = apiregistrationv1.SchemeGroupVersion
	storage.Transport.ServerList = etcd
	check(t, genericoptions.NewEtcdOptions(storage).ApplyTo(&cfg.Config))

	users := map[string]*user.DefaultInfo{}
	for _, name := range []string{"alice", "bob", "eve"} {
		users[name] = &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
	}
	cfg.Authentication.Authenticator = authenticatorfactory.NewFromTokens(users, nil)
	cfg.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer() // the backend decides

	cfg.SharedInformerFactory = informers.NewSharedInformerFactory(fake.NewClientset(service, slice(t, service, backend)), 0)
	endpoints, err := proxy.NewEndpointSliceIndexerGetter(cfg.SharedInformerFactory.Discovery().V1().EndpointSlices())
	check(t, err)
	config := kubeaggregator.Config{
		GenericConfig: cfg,
		ExtraConfig: kubeaggregator.ExtraConfig{
			ProxyClientCertFile: front.certFile,
			ProxyClientKeyFile:  front.keyFile,
			ServiceResolver:     kubeaggregator.NewEndpointServiceResolver(cfg.SharedInformerFactory.Core().V1().Services().Lister(), endpoints),
		},
	}
	aggregator, err := config.Complete().NewWithDelegate(genericserver.NewEmptyDelegate())
	check(t, err)
	started := make(chan struct{})
	aggregator.GenericAPIServer.AddPostStartHookOrDie("started", func(genericserver.PostStartHookContext) error {
		close(started) // it listens by now
		return nil
	})
	prepared, err := aggregator.PrepareRun()
	check(t, err)

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- prepared.Run(ctx) }()
	select {
	case <-started:
		t.Cleanup(func() { stop(); check(t, <-ended) })
	case err := <-ended:
		stop()
		t.Fatalf("kube-aggregator: %v", err)
	}

	cert, _ := cfg.SecureServing.Cert.CurrentCertKeyContent()
	return &rest.Config{Host: "https://" + listener.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: cert}, QPS: -1}
}

// slice says that the pods of the service are at the backend.
func slice(t *testing.T, service *corev1.Service, backend string) *discoveryv1.EndpointSlice {
	t.Helper()
	u, err := url.Parse(backend)
	check(t, err)
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	check(t, err)
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace,
			Name:      service.Name + "-1",
			Labels:    map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{u.Hostname()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &service.Spec.Ports[0].Name, Port: new(int32(port))}},
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// as is the configuration of a user whose token is the name.
func as(config *rest.Config, name string) *rest.Config {
	config = rest.CopyConfig(config)
	config.BearerToken = name
	return config
}
