//go:build linux

package tc

import (
	"fmt"
	"strings"
	"time"
)

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

// Diff says what of a tree that was read is not as wanted, as "bfifo of class 1:10 limit 1000
// bytes, want 65536"; nil when the trees are equal. In the one wanted, parents come first.
// Objects below a wrong one are not compared. Bucket depths may be a tick off. Where many
// objects of a qdisc have the same difference, the first is named with a count.
func (t Tree) Diff(want Tree) []string {
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
			d.add(o, "qdisc", "%s, want none", kind)
		} else {
			d.add(o, kind, "is not planned")
		}
	}
	return d.texts()
}

type differ struct {
	right map[Handle]bool // qdiscs that are as wanted, and false for classes that are missing
	found []difference
	a, b  []field
}

type difference struct {
	object, text string
	kin          string // objects that may be listed as one
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
		d.add(want, "qdisc", "%s, want %s", gotKind, kind)
	case !ok:
		d.right[want.Handle] = false
		d.add(want, kind, "is missing")
	case want.Handle != 0 && got.Handle != want.Handle:
		d.add(want, kind, "handle %s, want %s", got.Handle, want.Handle)
	case got.Parent != want.Parent:
		d.add(want, kind, "parent %s, want %s", got.Parent, want.Parent)
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
			d.add(want, kind, "%s %s, want %s", g.name, is, should)
		}
	}
}

// add records a difference of an object, which is named by its kind or as a qdisc of any.
func (d *differ) add(o Object, name, format string, args ...any) {
	typ, kind := o.Options.kind()
	found := difference{object: o.name(name), text: fmt.Sprintf(format, args...)}
	found.kin = fmt.Sprint(typ, kind, o.Parent.Qdisc(), found.text)
	if typ == Filter {
		found.kin += found.object // each is listed
	}
	d.found = append(d.found, found)
}

// texts puts the differences into words, many of one kin as the first and a count.
func (d *differ) texts() (out []string) {
	const few = 3 // are listed one by one
	count := map[string]int{}
	for _, f := range d.found {
		count[f.kin]++
	}
	for _, f := range d.found {
		n := count[f.kin]
		if n > few {
			f.object += fmt.Sprintf(" and %d more", n-1)
			count[f.kin] = 0
		}
		if n > 0 {
			out = append(out, f.object+" "+f.text)
		}
	}
	return out
}
