package demo

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/randfill"
)

// filler fills values such as JSON can carry.
func filler() *randfill.Filler {
	return randfill.New().NilChance(0).NumElements(1, 3).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:spec":{}}`) },
	)
}

func kinds() map[string]runtime.Object {
	return map[string]runtime.Object{
		"Widget": &Widget{}, "WidgetList": &WidgetList{}, "Ticket": &Ticket{}, "TicketList": &TicketList{},
		"Machine": &Machine{}, "MachineList": &MachineList{},
	}
}

// TestDeepCopy wants copies that are equal and share nothing: what is done to
// the original afterwards does not show in them.
func TestDeepCopy(t *testing.T) {
	for name, original := range kinds() {
		t.Run(name, func(t *testing.T) {
			filler().Fill(original)
			copied := original.DeepCopyObject()
			if !equality.Semantic.DeepEqual(original, copied) {
				t.Fatalf("- original, + copy\n%s", cmp.Diff(original, copied))
			}
			before, err := json.Marshal(copied)
			if err != nil {
				t.Fatal(err)
			}
			if wrecked := wreck(reflect.ValueOf(original).Elem()); wrecked == 0 {
				t.Fatal("there was nothing behind a pointer, in a slice or in a map to change")
			}
			after, err := json.Marshal(copied)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(before), string(after)); diff != "" {
				t.Errorf("the copy changed with the original: - before, + after\n%s", diff)
			}
		})
	}
	if (*Widget)(nil).DeepCopy() != nil || (*WidgetList)(nil).DeepCopy() != nil || (*Ticket)(nil).DeepCopy() != nil ||
		(*TicketList)(nil).DeepCopy() != nil || (*Machine)(nil).DeepCopy() != nil || (*MachineList)(nil).DeepCopy() != nil {
		t.Error("the copy of nil is not nil")
	}
}

// wreck overwrites everything that v refers to and that a shallow copy would
// share, and returns how much that was.
func wreck(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n += wreck(v.Elem())
			v.Elem().SetZero()
			n++
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += wreck(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += wreck(v.Index(i))
			v.Index(i).SetZero()
			n++
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			v.SetMapIndex(k, reflect.Value{})
			n++
		}
	}
	return n
}

// TestCodecRoundTrip stores each kind as the server does and reads it back.
func TestCodecRoundTrip(t *testing.T) {
	codec := Codecs.LegacyCodec(GroupVersions...)
	for name, original := range kinds() {
		t.Run(name, func(t *testing.T) {
			filler().Fill(original)
			gvk := versioned(t, original)
			original.GetObjectKind().SetGroupVersionKind(gvk)
			stored, err := runtime.Encode(codec, original)
			if err != nil {
				t.Fatal(err)
			}
			if want := `"apiVersion":"` + gvk.GroupVersion().String() + `"`; !strings.Contains(string(stored), want) {
				t.Errorf("%s is not in %s", want, stored)
			}
			read, err := runtime.Decode(codec, stored)
			if err != nil {
				t.Fatal(err)
			}
			read.GetObjectKind().SetGroupVersionKind(gvk)
			if !equality.Semantic.DeepEqual(original, read) {
				t.Errorf("- stored, + read\n%s", cmp.Diff(original, read))
			}
		})
	}
}

// versioned is the kind of obj, in the version that clients see.
func versioned(t *testing.T, obj runtime.Object) schema.GroupVersionKind {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	gvks, _, err := scheme.ObjectKinds(obj)
	if err != nil || len(gvks) != 1 {
		t.Fatalf("kinds of a %T: %v, %v", obj, gvks, err)
	}
	return gvks[0]
}

// TestDefinitionsMatchTypes compares the hand-written schemas with the Go types,
// field by field.
func TestDefinitionsMatchTypes(t *testing.T) {
	defs := Definitions(func(name string) spec.Ref { return spec.MustCreateRef("#/" + name) })
	for _, v := range []util.OpenAPIModelNamer{
		Widget{}, WidgetSpec{}, WidgetStatus{}, WidgetList{}, Ticket{}, TicketSpec{}, TicketList{},
		Machine{}, MachineSpec{}, MachineStatus{}, MachineList{},
	} {
		name := v.OpenAPIModelName()
		t.Run(name, func(t *testing.T) {
			def, ok := defs[name]
			if !ok {
				t.Fatal("no definition")
			}
			want := map[string]string{}
			jsonFields(reflect.TypeOf(v), want)
			got := map[string]string{}
			for property, schema := range def.Schema.Properties {
				got[property] = describe(schema)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("- Go type, + definition\n%s", diff)
			}
			for _, dependency := range def.Dependencies {
				if _, ok := defs[dependency]; !ok {
					t.Errorf("depends on %s, which is not defined", dependency)
				}
			}
		})
	}
}

// jsonFields writes down the JSON fields of typ with a short form of their schema.
func jsonFields(typ reflect.Type, into map[string]string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "inline" {
			jsonFields(f.Type, into)
			continue
		}
		into[name] = short(f.Type)
	}
}

func short(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Slice:
		return "array of " + short(typ.Elem())
	case reflect.Struct:
		return "#/" + reflect.Zero(typ).Interface().(util.OpenAPIModelNamer).OpenAPIModelName()
	case reflect.Int32, reflect.Int64:
		return "integer " + typ.Kind().String()
	case reflect.Bool:
		return "boolean"
	}
	return typ.Kind().String()
}

func describe(s spec.Schema) string {
	if ref := s.Ref.String(); ref != "" {
		return ref
	}
	if s.Items != nil {
		return s.Type[0] + " of " + describe(*s.Items.Schema)
	}
	return strings.TrimSpace(s.Type[0] + " " + s.Format)
}
