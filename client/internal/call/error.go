package call

// Error is what the server answers when it refuses or fails.
type Error struct {
	// Status is the HTTP status.
	Status int `json:"-"`
	// Code is stable and for programs: "app_unknown".
	Code string `json:"code" doc:"Stable, for programs." example:"app_unknown"`
	// Message is a sentence for a person.
	Message string `json:"message" doc:"For a person."`
	// Hint, which may be empty, is the way out.
	Hint string `json:"hint,omitempty" doc:"The way out."`
	// Statement is the index of the statement that failed, of a call of D1Query; nil when it was none of them.
	Statement *int `json:"statement,omitempty" doc:"Of D1: the index of the statement that failed."`
}

// Error implements error.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " — " + e.Hint
}
