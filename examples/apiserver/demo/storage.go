package demo

import (
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericserver "k8s.io/apiserver/pkg/server"
)

// NewAPIGroups builds the storage of all kinds and returns the groups, ready for
// GenericAPIServer.InstallAPIGroups. The storage of each kind comes from getter:
// whoever decorates getter decorates every read and write of these APIs. On an
// error what was built so far is destroyed again.
func NewAPIGroups(getter generic.RESTOptionsGetter) (groups []*genericserver.APIGroupInfo, err error) {
	var built []*store
	defer func() {
		if err != nil {
			for _, s := range built {
				s.Destroy()
			}
		}
	}()
	for _, gv := range GroupVersions {
		storage := map[string]rest.Storage{}
		for _, r := range resources {
			if r.gv != gv {
				continue
			}
			s, err := newStore(r, getter)
			if err != nil {
				return nil, err
			}
			built = append(built, s)
			storage[r.plural] = s
			if status := statusStrategyOf(r); status != nil {
				storage[r.plural+"/status"] = newStatusStore(*s.Store, status)
			}
		}
		group := genericserver.NewDefaultAPIGroupInfo(gv.Group, Scheme, ParameterCodec, Codecs)
		group.VersionedResourcesStorageMap[gv.Version] = storage
		groups = append(groups, &group)
	}
	return groups, nil
}

// store serves a kind.
type store struct {
	*registry.Store
	shortNames []string
}

var _ rest.ShortNamesProvider = (*store)(nil)

// ShortNames implements rest.ShortNamesProvider.
func (s *store) ShortNames() []string { return s.shortNames }

func newStore(r resource, getter generic.RESTOptionsGetter) (*store, error) {
	strategy := strategyOf(r)
	s := &registry.Store{
		NewFunc:                   r.object,
		NewListFunc:               r.list,
		DefaultQualifiedResource:  r.gv.WithResource(r.plural).GroupResource(),
		SingularQualifiedResource: r.gv.WithResource(r.singular).GroupResource(),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		TableConvertor:            table(r.columns),
	}
	if reset, ok := strategy.(rest.ResetFieldsStrategy); ok {
		s.ResetFieldsStrategy = reset
	}
	if r.kind == "Ticket" {
		s.TTLFunc = ticketTTL
	}
	return &store{Store: s, shortNames: r.shortNames},
		s.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: r.attributes})
}
