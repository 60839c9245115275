//go:build linux

package tc

import (
	"fmt"
	"strconv"
	"time"
)

// Difference is one setting that is not as wanted.
type Difference struct {
	Object string // "tbf", "htb class 1:10", "bfifo of class 1:10"
	Field  string // "limit"; empty where the object itself is
	// Got and Want are values with their unit. Got is empty where the object is missing,
	// Want where it is one too many.
	Got, Want string
	More      int // objects of the same kind and qdisc that differ in the same way
	group     string
}

// String is the difference in words.
func (d Difference) String() string {
	s := d.Object
	if d.More > 0 {
		s += fmt.Sprintf(" and %d more", d.More)
	}
	switch {
	case d.Got == "":
		return s + " is missing"
	case d.Want == "":
		return s + " is not planned"
	case d.Field != "":
		s += " " + d.Field
	}
	return s + " " + d.Got + ", want " + d.Want
}

// few is how many objects that differ in the same way are listed one by one.
const few = 3

// Diff compares a tree that was read with the one wanted; nil when they are equal. What
// hangs below a qdisc of the wrong kind is not looked at. Bucket depths may be a tick off.
func (t Tree) Diff(want Tree) []Difference {
	d := differ{got: make(map[place]Object, len(t)), inside: map[Handle]bool{}, planned: make(map[place]bool, len(want))}
	for _, o := range t {
		d.got[o.place()] = o
	}
	for _, o := range want {
		d.planned[o.place()] = true
		if d.looks(o) {
			d.compare(o)
		}
	}
	for _, o := range t {
		if !d.planned[o.place()] && d.looks(o) {
			d.extra(o)
		}
	}
	return merge(d.found)
}

// place tells objects of a tree apart: one qdisc hangs below a parent, a class has its own
// handle, and filters differ in what they do.
type place struct {
	typ    Type
	handle Handle
	does   Options
}

func (o Object) place() place {
	switch o.Type {
	case Qdisc:
		return place{typ: Qdisc, handle: o.Parent}
	case Class:
		return place{typ: Class, handle: o.Handle}
	}
	return place{typ: o.Type, handle: o.Parent, does: o.Options}
}

type differ struct {
	got     map[place]Object
	planned map[place]bool
	inside  map[Handle]bool // qdiscs that are as wanted, and classes that are missing: false
	found   []Difference
	a, b    []field
}

// looks reports whether an object is to be compared: whether what it belongs to is there.
func (d *differ) looks(o Object) bool {
	if o.Parent == Root {
		return true
	}
	if there, known := d.inside[o.Parent]; known {
		return there
	}
	return d.inside[o.Parent.Qdisc()]
}

func (d *differ) compare(want Object) {
	got, ok := d.got[want.place()]
	switch {
	case want.Type == Qdisc && (!ok || got.Options.Kind() != want.Options.Kind()):
		kind := "none"
		if ok {
			kind = got.Options.Kind()
		}
		d.differ(want, Difference{Object: want.where(), Got: kind, Want: want.Options.Kind()})
	case !ok:
		d.inside[want.Handle] = false
		d.differ(want, Difference{Object: want.name(), Want: want.Options.Kind()})
	case want.Handle != 0 && got.Handle != want.Handle:
		d.differ(want, Difference{Object: want.name(), Field: "handle", Got: got.Handle.String(), Want: want.Handle.String()})
	case want.Type == Class && got.Parent != want.Parent:
		d.differ(want, Difference{Object: want.name(), Field: "parent", Got: got.Parent.String(), Want: want.Parent.String()})
	default:
		if want.Type == Qdisc && want.Handle != 0 {
			d.inside[want.Handle] = true
		}
		d.fields(got, want)
	}
}

func (d *differ) fields(got, want Object) {
	if got.Options == want.Options {
		return
	}
	d.a, d.b = d.a[:0], d.b[:0]
	got.Options.layout(&coder{list: &d.a})
	want.Options.layout(&coder{list: &d.b})
	same := true
	for i, g := range d.a {
		w := d.b[i]
		if g.depends && !same {
			continue
		}
		if same = max(g.value, w.value)-min(g.value, w.value) <= g.slack; !same {
			d.differ(want, Difference{Object: want.name(), Field: g.name, Got: g.text() + g.suffix(), Want: w.text()})
		}
	}
}

func (d *differ) extra(o Object) {
	if o.Type == Qdisc {
		d.differ(o, Difference{Object: o.where(), Got: o.Options.Kind(), Want: "none"})
		return
	}
	d.differ(o, Difference{Object: o.name(), Got: o.Options.Kind()})
}

// differ records a finding. Those of filters are never merged.
func (d *differ) differ(o Object, what Difference) {
	group := what.Object
	if o.Type != Filter {
		group = fmt.Sprint(o.Type, o.Options.Kind(), o.Parent.Qdisc())
	}
	what.group = fmt.Sprint(group, "\n", what.Field, "\n", what.Got, "\n", what.Want)
	d.found = append(d.found, what)
}

// merge replaces many objects that differ in the same way by the first and a count.
func merge(all []Difference) (out []Difference) {
	count := map[string]int{}
	for _, d := range all {
		count[d.group]++
	}
	for _, d := range all {
		switch n := count[d.group]; {
		case n > few:
			d.More = n - 1
			out = append(out, d)
			count[d.group] = 0
		case n > 0:
			out = append(out, d)
		}
	}
	return out
}

// where is a qdisc's place.
func (o Object) where() string {
	if o.Parent == Root {
		return "root qdisc"
	}
	return "qdisc of class " + o.Parent.String()
}

// name is the object in words.
func (o Object) name() string {
	kind := o.Options.Kind()
	switch {
	case o.Type == Filter:
		if s, ok := o.Options.(fmt.Stringer); ok {
			return s.String()
		}
		return kind + " filter"
	case o.Type == Class:
		return kind + " class " + o.Handle.String()
	case o.Parent == Root:
		return kind
	}
	return kind + " of class " + o.Parent.String()
}

// text is a field's value.
func (f field) text() string {
	switch f.unit {
	case hex:
		return "0x" + strconv.FormatUint(f.shown, 16)
	case nanoseconds:
		return time.Duration(f.shown).String()
	}
	return strconv.FormatUint(f.shown, 10)
}

// suffix is what follows the value that was read, and is understood of the one wanted.
func (f field) suffix() string {
	if f.unit == hex || f.unit == nanoseconds {
		return ""
	}
	return f.unit
}
