package servers

// Free returns what tells the free bytes of the disk under a database of the embedded server; nil for one of the user's.
func (s *Servers) Free(name string) func() (int64, error) {
	_, own := s.o.URLs[name]
	_, all := s.o.URLs[""]
	if own || all {
		return nil
	}
	return func() (int64, error) { return FreeSpace(s.o.Dir) }
}
