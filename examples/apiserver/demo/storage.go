package demo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericserver "k8s.io/apiserver/pkg/server"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// NewAPIGroupInfo builds the storage of both kinds and returns the group, ready
// for GenericAPIServer.InstallAPIGroup. The storage of each comes from getter:
// whoever decorates getter decorates every read and write of this API. On an
// error what was built so far is destroyed again.
func NewAPIGroupInfo(getter generic.RESTOptionsGetter) (*genericserver.APIGroupInfo, error) {
	options := &generic.StoreOptions{RESTOptions: getter}

	ws := widgetStrategy{newStrategy()}
	widgets := &registry.Store{
		NewFunc:                   func() runtime.Object { return &Widget{} },
		NewListFunc:               func() runtime.Object { return &WidgetList{} },
		DefaultQualifiedResource:  GroupVersion.WithResource("widgets").GroupResource(),
		SingularQualifiedResource: GroupVersion.WithResource("widget").GroupResource(),
		CreateStrategy:            ws,
		UpdateStrategy:            ws,
		DeleteStrategy:            ws,
		ResetFieldsStrategy:       ws,
	}
	widgets.TableConvertor = rest.NewDefaultTableConvertor(widgets.DefaultQualifiedResource)
	if err := widgets.CompleteWithOptions(options); err != nil {
		return nil, err
	}

	ts := ticketStrategy{newStrategy()}
	tickets := &registry.Store{
		NewFunc:                   func() runtime.Object { return &Ticket{} },
		NewListFunc:               func() runtime.Object { return &TicketList{} },
		DefaultQualifiedResource:  GroupVersion.WithResource("tickets").GroupResource(),
		SingularQualifiedResource: GroupVersion.WithResource("ticket").GroupResource(),
		CreateStrategy:            ts,
		UpdateStrategy:            ts,
		DeleteStrategy:            ts,
		TTLFunc:                   ticketTTL,
	}
	tickets.TableConvertor = rest.NewDefaultTableConvertor(tickets.DefaultQualifiedResource)
	if err := tickets.CompleteWithOptions(options); err != nil {
		widgets.Destroy()
		return nil, err
	}

	info := genericserver.NewDefaultAPIGroupInfo(GroupVersion.Group, Scheme, ParameterCodec, Codecs)
	info.VersionedResourcesStorageMap[GroupVersion.Version] = map[string]rest.Storage{
		"widgets":        widgets,
		"widgets/status": newWidgetStatus(*widgets, widgetStatusStrategy{ws}),
		"tickets":        tickets,
	}
	return &info, nil
}

// widgetStatus serves widgets/status. It names the few verbs it allows instead
// of embedding the Store, which would allow them all.
type widgetStatus struct{ store *registry.Store }

var (
	_ rest.Patcher             = (*widgetStatus)(nil)
	_ rest.ResetFieldsStrategy = (*widgetStatus)(nil)
)

// newWidgetStatus takes a copy of the widgets' store: it shares the storage and
// differs in its strategy.
func newWidgetStatus(store registry.Store, s widgetStatusStrategy) *widgetStatus {
	store.UpdateStrategy = s
	store.ResetFieldsStrategy = s
	return &widgetStatus{store: &store}
}

// New implements rest.Storage.
func (s *widgetStatus) New() runtime.Object { return &Widget{} }

// Destroy does nothing: the storage belongs to the widgets' store.
func (s *widgetStatus) Destroy() {}

// Get implements rest.Patcher.
func (s *widgetStatus) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update implements rest.Patcher. A status is never created without its widget.
func (s *widgetStatus) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s *widgetStatus) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (s *widgetStatus) ConvertToTable(ctx context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, object, tableOptions)
}
