package demo

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"
)

// column is one of the columns of `kubectl get` between the name and the age.
type column struct {
	name, typ, description string
	value                  func(runtime.Object) any
}

// table renders objects and lists of them for people.
type table []column

var _ rest.TableConvertor = table{}

// ConvertToTable implements rest.TableConvertor.
func (t table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = t.definitions()
	}
	if !meta.IsListType(object) {
		if m, err := meta.CommonAccessor(object); err == nil {
			out.ResourceVersion = m.GetResourceVersion()
		}
		return out, t.addRow(out, object)
	}
	if m, err := meta.ListAccessor(object); err == nil {
		out.ResourceVersion = m.GetResourceVersion()
		out.Continue = m.GetContinue()
		out.RemainingItemCount = m.GetRemainingItemCount()
	}
	return out, meta.EachListItem(object, func(item runtime.Object) error { return t.addRow(out, item) })
}

func (t table) definitions() []metav1.TableColumnDefinition {
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	defs := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: docs["name"]}}
	for _, c := range t {
		defs = append(defs, metav1.TableColumnDefinition{Name: c.name, Type: c.typ, Description: c.description})
	}
	return append(defs, metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: docs["creationTimestamp"]})
}

func (t table) addRow(out *metav1.Table, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	cells := []any{m.GetName()}
	for _, c := range t {
		cells = append(cells, c.value(obj))
	}
	out.Rows = append(out.Rows, metav1.TableRow{
		Cells:  append(cells, age(m.GetCreationTimestamp())),
		Object: runtime.RawExtension{Object: obj},
	})
	return nil
}

func age(since metav1.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since.Time))
}
