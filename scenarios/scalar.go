package scenarios

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"time"
)

var (
	integerPattern = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	numberPattern  = regexp.MustCompile(`^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$`)
)

// scan reads the text of a scalar into v, which has the field's type. It
// checks syntax and units, not the range. It does not accept 0 for auto, although
// 0 means auto in Go.
func (f *field) scan(text string, v reflect.Value) error {
	if f.auto && text == "auto" {
		v.SetZero()
		return nil
	}
	if err := f.scanPlain(text, v); err != nil {
		return err
	}
	if f.auto && v.IsZero() {
		return fmt.Errorf("must be %s", f.allowed())
	}
	return nil
}

func (f *field) scanPlain(text string, v reflect.Value) error {
	switch f.kind {
	case kindText:
		v.SetString(text)
	case kindFlag:
		if text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		v.SetBool(text == "true")
	case kindInteger:
		return scanInteger(text, v)
	case kindSeed:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || !integerPattern.MatchString(text) {
			return errors.New("must be a whole number from 0 to 18446744073709551615")
		}
		v.SetUint(n)
	case kindNumber:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !numberPattern.MatchString(text) {
			return fmt.Errorf("must be a plain number")
		}
		v.SetFloat(n)
	case kindBytes:
		n, err := ParseBytes(text)
		v.SetInt(int64(n))
		return err
	case kindRate:
		n, err := ParseBitsPerSecond(text)
		v.SetInt(int64(n))
		return err
	case kindDuration:
		n, err := parseDuration(text)
		v.SetInt(int64(n))
		return err
	case kindPerSecond:
		n, err := parsePerSecond(text)
		v.SetFloat(n)
		return err
	default:
		return errors.New("not a scalar")
	}
	return nil
}

func scanInteger(text string, v reflect.Value) error {
	if !integerPattern.MatchString(text) {
		return errors.New("must be a whole number in plain decimal")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errors.New("must be a whole number of at most 64 bits")
	}
	v.SetInt(n)
	return nil
}

// format writes a scalar in a form that scan reads.
func (f *field) format(v reflect.Value) string {
	if f.auto && v.IsZero() {
		return "auto"
	}
	switch f.kind {
	case kindText:
		return v.String()
	case kindFlag:
		return strconv.FormatBool(v.Bool())
	case kindSeed:
		return strconv.FormatUint(v.Uint(), 10)
	case kindNumber:
		return formatFloat(v.Float())
	case kindBytes:
		return Bytes(v.Int()).String()
	case kindRate:
		return BitsPerSecond(v.Int()).String()
	case kindDuration:
		return formatDuration(time.Duration(v.Int()))
	case kindPerSecond:
		return formatFloat(v.Float()) + "/s"
	default:
		return strconv.FormatInt(v.Int(), 10)
	}
}

// inRange reports whether the value is in the field's range; NaN never is.
func (f *field) inRange(v reflect.Value) bool {
	switch {
	case !f.lo.IsValid() || f.auto && v.IsZero():
		return true
	case v.CanFloat():
		return v.Float() >= f.lo.Float() && v.Float() <= f.hi.Float()
	default:
		return v.Int() >= f.lo.Int() && v.Int() <= f.hi.Int()
	}
}

// allowed describes the range in words.
func (f *field) allowed() string {
	if f.auto {
		return "auto or " + f.rangeText
	}
	return f.rangeText
}

// noun is what a value of the field is called in messages and documents.
func (f *field) noun() string {
	switch f.kind {
	case kindText:
		return "text"
	case kindFlag:
		return "true or false"
	case kindInteger, kindSeed:
		return "whole number"
	case kindNumber:
		return "number"
	case kindBytes:
		return "size"
	case kindRate:
		return "rate"
	case kindDuration:
		return "time"
	case kindPerSecond:
		return "arrival rate"
	case kindList:
		return "list"
	default:
		return "mapping"
	}
}
