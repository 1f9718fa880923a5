package wire

import (
	"reflect"
	"testing"
)

// TestReset fills every field that there is, so that one that is added and not reset is found.
func TestReset(t *testing.T) {
	var h Header
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.CanSet() {
			fill(f)
		}
	}
	h.segs = make([]Segment, 1)
	h.Reset()
	for i := range v.NumField() {
		empty(t, v.Type().Field(i).Name, v.Field(i))
	}
	if cap(h.Reads) == 0 || cap(h.Writes) == 0 || cap(h.Props) == 0 || cap(h.NoChange) == 0 || cap(h.DoneSet) == 0 ||
		cap(h.Rejected) == 0 || cap(h.segs) == 0 {
		t.Error("memory was not kept")
	}
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetUint(1)
	}
}

func empty(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			empty(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		if v.Len() != 0 {
			t.Errorf("%s has %d elements", name, v.Len())
		}
	default:
		if !v.IsZero() {
			t.Errorf("%s is %v", name, v)
		}
	}
}
