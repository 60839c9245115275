//go:build linux

package tc

import (
	"fmt"
	"strings"
	"time"
)

// Difference is one thing that is not as wanted.
type Difference struct {
	Object    string // "tbf", "htb class 1:10", "bfifo of class 1:10"
	Field     string // "limit"; empty where the object itself is meant
	Got, Want string // Want is empty where Got is enough: "is missing"
	kin       string // objects that may be listed as one
}

// String is the difference in words.
func (d Difference) String() string {
	s := d.Object + " " + strings.TrimPrefix(d.Field+" ", " ") + d.Got
	if d.Want != "" {
		s += ", want " + d.Want
	}
	return s
}

// field is one setting, as it is compared and printed.
type field struct {
	name, unit   string
	value, shown uint64
	slack        uint64 // the tolerance of value
	depends      bool   // ignored where the field before differs
}

// nanoseconds is the one unit that is not a verb and a suffix.
const nanoseconds = "ns"

// words are the values of a field as read and as wanted, the latter without its unit.
func words(got, want field) (string, string) {
	if got.unit == nanoseconds {
		return time.Duration(got.shown).String(), time.Duration(want.shown).String()
	}
	verb, _, _ := strings.Cut(got.unit, " ")
	return fmt.Sprintf(got.unit, got.shown), fmt.Sprintf(verb, want.shown)
}

// place identifies an object of a tree: a parent has one qdisc, a class has its own
// handle, and filters differ in what they do.
type place struct {
	typ    Type
	handle Handle
	does   Options
}

func (o Object) place() place {
	switch typ, _ := o.Options.kind(); typ {
	case Qdisc:
		return place{typ: Qdisc, handle: o.Parent}
	case Class:
		return place{typ: Class, handle: o.Handle}
	}
	return place{typ: Filter, handle: o.Parent, does: o.Options}
}

// name is the object in words: of its kind, or as a qdisc of any.
func (o Object) name(kind string) string {
	switch typ, _ := o.Options.kind(); {
	case typ == Filter:
		return fmt.Sprintf("%s filter %v", kind, o.Options)
	case typ == Class:
		return kind + " class " + o.Handle.String()
	case o.Parent != Root:
		return kind + " of class " + o.Parent.String()
	case kind == "qdisc":
		return "root qdisc"
	}
	return kind
}

// Diff compares a tree that was read with the one wanted, in which parents come first; nil
// when they are equal. Objects below a wrong one are not compared. Bucket depths may be
// a tick off. Where many objects of a qdisc have the same difference, the first is named
// with a count.
func (t Tree) Diff(want Tree) []Difference {
	got, planned := make(map[place]Object, len(t)), make(map[place]bool, len(want))
	for _, o := range t {
		got[o.place()] = o
	}
	d := differ{right: map[Handle]bool{Root: true}}
	for _, w := range want {
		planned[w.place()] = true
		if d.looks(w) {
			g, ok := got[w.place()]
			d.compare(g, w, ok)
		}
	}
	for _, o := range t {
		if typ, kind := o.Options.kind(); planned[o.place()] || !d.looks(o) {
			continue
		} else if typ == Qdisc {
			d.add(o, Difference{Object: o.name("qdisc"), Got: kind, Want: "none"})
		} else {
			d.add(o, Difference{Object: o.name(kind), Got: "is not planned"})
		}
	}
	return merge(d.found)
}

type differ struct {
	right map[Handle]bool // qdiscs that are as wanted, and false for classes that are missing
	found []Difference
	a, b  []field
}

// looks reports whether the parent of an object is there.
func (d *differ) looks(o Object) bool {
	if there, known := d.right[o.Parent]; known {
		return there
	}
	return d.right[o.Parent.Qdisc()]
}

func (d *differ) compare(got, want Object, ok bool) {
	gotKind := "none"
	if ok {
		_, gotKind = got.Options.kind()
	}
	switch typ, kind := want.Options.kind(); {
	case typ == Qdisc && gotKind != kind:
		d.add(want, Difference{Object: want.name("qdisc"), Got: gotKind, Want: kind})
	case !ok:
		d.right[want.Handle] = false
		d.add(want, Difference{Object: want.name(kind), Got: "is missing"})
	case want.Handle != 0 && got.Handle != want.Handle:
		d.add(want, Difference{Object: want.name(kind), Field: "handle", Got: got.Handle.String(), Want: want.Handle.String()})
	case got.Parent != want.Parent:
		d.add(want, Difference{Object: want.name(kind), Field: "parent", Got: got.Parent.String(), Want: want.Parent.String()})
	default:
		if typ == Qdisc && want.Handle != 0 {
			d.right[want.Handle] = true
		}
		d.fields(got.Options, want)
	}
}

func (d *differ) fields(got Options, want Object) {
	if got == want.Options {
		return
	}
	d.a, d.b = d.a[:0], d.b[:0]
	got.layout(&coder{list: &d.a})
	want.Options.layout(&coder{list: &d.b})
	_, kind := want.Options.kind()
	same := true
	for i, g := range d.a {
		w := d.b[i]
		if g.depends && !same {
			continue
		}
		if same = max(g.value, w.value)-min(g.value, w.value) <= g.slack; !same {
			is, should := words(g, w)
			d.add(want, Difference{Object: want.name(kind), Field: g.name, Got: is, Want: should})
		}
	}
}

func (d *differ) add(o Object, what Difference) {
	typ, kind := o.Options.kind()
	what.kin = fmt.Sprint(typ, kind, o.Parent.Qdisc(), what.Field, what.Got, what.Want)
	if typ == Filter {
		what.kin += what.Object // each is listed
	}
	d.found = append(d.found, what)
}

// merge replaces many differences of one kin by the first and a count.
func merge(all []Difference) (out []Difference) {
	const few = 3 // are listed one by one
	count := map[string]int{}
	for _, d := range all {
		count[d.kin]++
	}
	for _, d := range all {
		n := count[d.kin]
		if n > few {
			d.Object += fmt.Sprintf(" and %d more", n-1)
			count[d.kin] = 0
		}
		if n > 0 {
			out = append(out, d)
		}
	}
	return out
}
