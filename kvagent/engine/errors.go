package engine

import (
	"errors"
	"fmt"
)

// Errors of the machines; compare with errors.Is.
var (
	// ErrNoMemory: a reservation needs more than is free. Always a *NoMemoryError.
	ErrNoMemory = errors.New("not enough KV memory")
	// ErrDuplicate: there is an unfinished request with that id.
	ErrDuplicate = errors.New("request is already here")
	// ErrUnknown: no unfinished request has that id.
	ErrUnknown = errors.New("request is not here")
	// ErrArrived: the bytes of that request have arrived already.
	ErrArrived = errors.New("request has arrived before")
	// ErrInvalid: an argument is out of range; the text says which.
	ErrInvalid = errors.New("invalid argument")
)

// NoMemoryError says how much a reservation needs and how much there is. It
// matches ErrNoMemory. All amounts are bytes in whole blocks.
type NoMemoryError struct {
	// Need is what the reservation takes from the free memory: new blocks, and
	// cached ones that it would pin. Need > Capacity can never succeed.
	Need int64
	// Free is FreeBytes at the time.
	Free int64
	// Capacity is MemoryBytes.
	Capacity int64
}

func (e *NoMemoryError) Error() string {
	return fmt.Sprintf("%v: need %d bytes, free %d of %d", ErrNoMemory, e.Need, e.Free, e.Capacity)
}

// Unwrap returns ErrNoMemory.
func (e *NoMemoryError) Unwrap() error { return ErrNoMemory }
