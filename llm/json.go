package llm

// Raw is JSON text that is passed on unchanged, such as schemas and unknown members.
type Raw string

// Number is the text of a JSON number. It stays as the source wrote it, because a
// prompt cache treats 1.10 and 1.1 as different.
type Number string

// Member is a member of a JSON object.
type Member struct {
	Name  string
	Value Raw
}

// Ext holds the members of a JSON object for which there is no field. The encoder of
// the same protocol writes them again; the encoders of other protocols report them as
// dropped.
type Ext struct {
	Protocol string
	Members  []Member
}

// Get returns the value of the named member, or "" if there is none.
func (e Ext) Get(name string) Raw {
	for _, m := range e.Members {
		if m.Name == name {
			return m.Value
		}
	}
	return ""
}
