package aggregator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// core is the little of a kube-apiserver that an aggregated API server asks: whom
// to trust as a front proxy, and what a user may do.
type core struct {
	*httptest.Server
	may func(user, verb string) bool // verb "": a path that is no resource
	ca  string                       // of front proxies, PEM
}

// serviceAccount is the token that the aggregated server has at the core.
const serviceAccount = "of-the-service-account"

func startCore(t *testing.T, proxyCA string, may func(user, verb string) bool) *core {
	c := &core{ca: proxyCA, may: may}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", c.review)
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, c.authentication())
	})
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps", c.list)
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+serviceAccount {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { c.CloseClientConnections(); c.Close() })
	return c
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// review answers a SubjectAccessReview.
func (c *core) review(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	verb := ""
	if a := review.Spec.ResourceAttributes; a != nil {
		verb = a.Verb
	}
	review.Status.Allowed = c.may(review.Spec.User, verb)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	answer(w, review)
}

// authentication is the configmap that every cluster has for aggregated servers.
func (c *core) authentication() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication", ResourceVersion: "1"},
		Data: map[string]string{
			"client-ca-file":                     c.ca,
			"requestheader-client-ca-file":       c.ca,
			"requestheader-allowed-names":        `["front-proxy"]`,
			"requestheader-username-headers":     `["X-Remote-User"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	}
}

// list serves an informer on that configmap, which never changes.
func (c *core) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("watch") == "" {
		answer(w, &corev1.ConfigMapList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items:    []corev1.ConfigMap{*c.authentication()},
		})
		return
	}
	if query.Get("sendInitialEvents") == "true" {
		answer(w, map[string]any{"type": "ADDED", "object": c.authentication()})
		bookmark := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		bookmark.ResourceVersion = "1"
		bookmark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		answer(w, map[string]any{"type": "BOOKMARK", "object": bookmark})
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// kubeconfig is a file with which the aggregated server reaches the core.
func (c *core) kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["core"] = &clientcmdapi.Cluster{
		Server:                   c.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}),
	}
	config.AuthInfos["core"] = &clientcmdapi.AuthInfo{Token: serviceAccount}
	config.Contexts["core"] = &clientcmdapi.Context{Cluster: "core", AuthInfo: "core"}
	config.CurrentContext = "core"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// frontProxy is what the aggregator proves itself with.
type frontProxy struct {
	ca                string // PEM
	certFile, keyFile string
}

func newFrontProxy(t *testing.T) frontProxy {
	t.Helper()
	dir := t.TempDir()
	caKey, key := newKey(t), newKey(t)
	ca := newCertificate(t, "front-proxy-ca", nil, caKey, caKey)
	p := frontProxy{ca: encode("CERTIFICATE", ca.Raw), certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key")}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		p.certFile: encode("CERTIFICATE", newCertificate(t, "front-proxy", ca, key, caKey).Raw),
		p.keyFile:  encode("EC PRIVATE KEY", der),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newCertificate is a client certificate by the CA; nil: it is the CA.
func newCertificate(t *testing.T, name string, ca *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if ca == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		ca = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// policy: alice may do everything, bob may read, and who has a name may look at
// what is served, as in every cluster (system:discovery).
func policy(user, verb string) bool {
	switch user {
	case "alice":
		return true
	case "bob":
		return slices.Contains([]string{"", "get", "list", "watch"}, verb)
	}
	return verb == "" && user != "system:anonymous"
}
