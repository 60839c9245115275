package scenarios

import (
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// checkRanges walks the whole scenario and reports every value outside its
// range, word list, pattern or length, whether a file or a program set it.
func (f *faults) checkRanges(fd *field, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch fd.kind {
	case kindSection:
		for _, c := range fd.fields {
			f.checkRanges(c, c.at(v), joinPath(path, c.key))
		}
	case kindList:
		f.checkList(fd, v, path)
	default:
		f.checkScalar(fd, v, path)
	}
}

func (f *faults) checkList(fd *field, v reflect.Value, path string) {
	if v.Len() == 0 && fd.optional && !f.given(path) {
		return
	}
	if v.Len() < fd.least || fd.most > 0 && v.Len() > fd.most {
		if !f.clean(path) {
			return // the list could not be read
		}
		f.addf(path, "must have %d..%d items, got %d", fd.least, fd.most, v.Len())
		return
	}
	for i := range v.Len() {
		f.checkRanges(fd.elem, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (f *faults) checkScalar(fd *field, v reflect.Value, path string) {
	if v.IsZero() && (fd.optional || fd.derived) && !f.given(path) {
		return
	}
	if f.bad[path] {
		return // the value is not the file's
	}
	switch {
	case len(fd.enum) > 0 && !slices.Contains(fd.enum, v.String()):
		f.addf(path, "%s", notOneOf("unknown value", v.String(), fd.enum))
	case fd.pattern != nil && !fd.pattern.MatchString(v.String()):
		f.addf(path, "must be %s, got %q", fd.patternDoc, clip(v.String()))
	case !fd.inRange(v):
		f.addf(path, "must be %s, got %s", fd.allowed(), f.got(fd, v, path))
	}
}

// got is the value as the file spells it, else as this package would.
func (f *faults) got(fd *field, v reflect.Value, path string) string {
	if n := f.nodes[path]; n != nil && n.Kind == yaml.ScalarNode {
		return clip(n.Value)
	}
	return clip(fd.format(v))
}
