package server

import (
	"context"
	"crypto/rand"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	unionauthorizer "k8s.io/apiserver/pkg/authorization/union"
	genericserver "k8s.io/apiserver/pkg/server"

	rvapiserver "github.com/rvfloor/rvfloor/decorator/apiserver"
)

// applyTokenAccess lets who has the returned token do everything, and anybody
// else who can reach the server read.
func applyTokenAccess(cfg *genericserver.Config) (token string, err error) {
	token = rand.Text()
	cfg.Authentication.Authenticator = union.NewFailOnError( // a wrong token is an error, not an anonymous caller
		authenticatorfactory.NewFromTokens(map[string]*user.DefaultInfo{token: {
			Name:   "admin",
			Groups: []string{user.AllAuthenticated, user.SystemPrivilegedGroup},
		}}, nil),
		anonymous.NewAuthenticator(nil),
	)
	cfg.Authorization.Authorizer, err = unionauthorizer.New(
		unionauthorizer.NamedAuthorizer{AuthorizerName: "token", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		unionauthorizer.NamedAuthorizer{AuthorizerName: "reader", Authorizer: authorizer.AuthorizerFunc(authorizeReader)},
	)
	return token, err
}

// authorizeReader allows what changes nothing. A heap dump under /debug/pprof
// would show the token; the page of rvfloor holds no secrets.
func authorizeReader(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	secret := !a.IsResourceRequest() && strings.HasPrefix(a.GetPath(), "/debug/") && a.GetPath() != rvapiserver.DebugPath
	if a.IsReadOnly() && !secret {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "this needs the token in the kubeconfig that the server wrote", nil
}
