package httplab

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/apis/example/install"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/plugin/pkg/audit/fake"
)

// PodsPath is where the pods of a namespace are served.
func PodsPath(namespace string) string {
	return "/apis/example.apiserver.k8s.io/v1/namespaces/" + namespace + "/pods"
}

var (
	scheme         = newScheme()
	codecs         = serializer.NewCodecFactory(scheme)
	parameterCodec = runtime.NewParameterCodec(scheme)

	// Codec is how the pods are stored.
	Codec = codecs.LegacyCodec(examplev1.SchemeGroupVersion)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	install.Install(s)
	s.AddKnownTypes(example.SchemeGroupVersion, &example.PodList{}) // these have no lists of their own
	s.AddKnownTypes(examplev1.SchemeGroupVersion, &examplev1.PodList{})
	return s
}

// Config is what a server is told beside its storage.
type Config struct {
	// Prefix is the storage's resource prefix, such as "/pods".
	Prefix string
	// Timeout ends a request that is no watch; 0 means 60 s, as in an API server.
	Timeout time.Duration
	// Audit gets the event of each request that was answered, at level Metadata; it must
	// not keep it. nil: none are audited.
	Audit func(*audit.Event)
}

// NewHandler serves get, list, watch and create of pods from store. Everybody may do
// everything.
func NewHandler(store storage.Interface, cfg Config) http.Handler {
	c := server.NewConfig(codecs)
	c.RequestInfoResolver = server.NewRequestInfoResolver(c)
	c.FeatureGate = utilfeature.DefaultFeatureGate
	c.Authentication.Authenticator = union.New(authenticator.RequestFunc(named), anonymous.NewAuthenticator(nil))
	c.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	if cfg.Timeout != 0 {
		c.RequestTimeout = cfg.Timeout
	}
	if cfg.Audit != nil {
		c.AuditBackend = &fake.Backend{OnRequest: func(events []*audit.Event) {
			for _, event := range events {
				if event.Stage == audit.StageResponseComplete {
					cfg.Audit(event)
				}
			}
		}}
		c.AuditPolicyRuleEvaluator = policy.NewFakePolicyRuleEvaluator(audit.LevelMetadata, nil)
	}
	return server.DefaultBuildHandlerChain(endpoints(newRegistry(store, cfg.Prefix)), c)
}

// UserHeader names the user of a request; without it that is anonymous.
const UserHeader = "Test-User"

func named(r *http.Request) (*authenticator.Response, bool, error) {
	name := r.Header.Get(UserHeader)
	return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, name != "", nil
}

func endpoints(pods *registry.Store) http.Handler {
	fieldManager, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), scheme, scheme, scheme,
		examplev1.SchemeGroupVersion.WithKind("Pod"), example.SchemeGroupVersion, "", nil)
	utilruntime.Must(err)
	scope := &handlers.RequestScope{
		Namer:            handlers.ContextBasedNaming{Namer: meta.NewAccessor()},
		Serializer:       codecs,
		ParameterCodec:   parameterCodec,
		Creater:          scheme,
		Convertor:        scheme,
		UnsafeConvertor:  runtime.UnsafeObjectConvertor(scheme),
		Defaulter:        scheme,
		Typer:            scheme,
		TableConvertor:   rest.NewDefaultTableConvertor(example.Resource("pods")),
		Resource:         examplev1.SchemeGroupVersion.WithResource("pods"),
		Kind:             examplev1.SchemeGroupVersion.WithKind("Pod"),
		HubGroupVersion:  example.SchemeGroupVersion,
		FieldManager:     fieldManager,
		MetaGroupVersion: metav1.SchemeGroupVersion,

		EquivalentResourceMapper: runtime.NewEquivalentResourceRegistry(),
	}
	verbs := map[string]http.HandlerFunc{
		"get":    handlers.GetResource(pods, scope),
		"list":   handlers.ListResource(pods, pods, scope, false, time.Minute),
		"watch":  handlers.ListResource(pods, pods, scope, false, time.Minute),
		"create": handlers.CreateResource(pods, scope, nil),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || verbs[info.Verb] == nil {
			http.NotFound(w, r)
			return
		}
		verbs[info.Verb](w, r)
	})
}
