package r2

import (
	"net/http"
	"slices"

	"github.com/runlot/runlot/internal/core/r2"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// told is a queue with the rules by which it is told of events.
type told struct {
	ID    string    `json:"queueId"`
	Name  string    `json:"queueName"`
	Rules []oneRule `json:"rules"`
}

type oneRule struct {
	ID          string   `json:"ruleId"`
	Created     string   `json:"createdAt"`
	Prefix      string   `json:"prefix,omitempty"`
	Suffix      string   `json:"suffix,omitempty"`
	Actions     []string `json:"actions"`
	Description string   `json:"description,omitempty"`
}

// queues are those that rules of a bucket name.
func (s *Service) queues(c *wire.Call, b *bucket) ([]told, error) {
	all, err := s.o.Buckets.Rules(c.Context(), b.name)
	if err != nil {
		return nil, failed(err)
	}
	list := []told{}
	for i := range all {
		r := &all[i]
		id := s.o.Queues.ID(r.Database, r.Queue)
		at := slices.IndexFunc(list, func(q told) bool { return q.ID == id })
		if at < 0 {
			at = len(list)
			name, err := s.o.Queues.Shown(c, r.Database, r.Queue)
			if err != nil {
				return nil, err
			}
			list = append(list, told{ID: id, Name: name})
		}
		list[at].Rules = append(list[at].Rules, oneRule{r.ID, wire.Stamp(r.Created), r.Prefix, r.Suffix, r.Actions, r.Description})
	}
	return list, nil
}

func (s *Service) rules(w http.ResponseWriter, c *wire.Call) error {
	b, err := s.find(c)
	if err != nil {
		return err
	}
	list, err := s.queues(c, b)
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]any{"bucketName": b.name, "queues": list})
	return nil
}

func (s *Service) queueRules(w http.ResponseWriter, c *wire.Call) error {
	b, err := s.find(c)
	if err != nil {
		return err
	}
	database, name, err := s.o.Queues.Find(c, c.PathValue("queue"))
	if err != nil {
		return err
	}
	list, err := s.queues(c, b)
	if err != nil {
		return err
	}
	one := told{ID: s.o.Queues.ID(database, name), Rules: []oneRule{}}
	if one.Name, err = s.o.Queues.Shown(c, database, name); err != nil {
		return err
	}
	if at := slices.IndexFunc(list, func(q told) bool { return q.ID == one.ID }); at >= 0 {
		one = list[at]
	}
	wire.Answer(w, one)
	return nil
}

// addRules adds rules for a queue to those that there are.
func (s *Service) addRules(w http.ResponseWriter, c *wire.Call) error {
	in, err := wire.Body[struct {
		Rules []struct {
			Prefix, Suffix, Description string
			Actions                     []string
		} `json:"rules"`
	}](c)
	if err != nil {
		return err
	}
	b, err := s.find(c)
	if err != nil {
		return err
	}
	database, name, err := s.o.Queues.Find(c, c.PathValue("queue"))
	if err != nil {
		return err
	}
	var list []*r2.Rule
	for _, one := range in.Rules {
		rule := &r2.Rule{Database: database, Queue: name, Prefix: one.Prefix, Suffix: one.Suffix, Description: one.Description, Actions: one.Actions}
		if err := rule.Check(b.name); err != nil {
			return err
		}
		list = append(list, rule)
	}
	if len(list) == 0 {
		return refusef("the call names no rules")
	}
	for _, rule := range list {
		if err := s.o.Buckets.AddRule(wire.Finished(c), b.name, rule); err != nil {
			return failed(err)
		}
	}
	s.note(c, "r2.rule.created", b)
	wire.Answer(w, struct{}{})
	return nil
}

// deleteRules deletes the rules of a queue, or those of them that the call names.
func (s *Service) deleteRules(w http.ResponseWriter, c *wire.Call) error {
	in, err := wire.Body[struct {
		IDs []string `json:"ruleIds"`
	}](c)
	if err != nil {
		return err
	}
	b, err := s.find(c)
	if err != nil {
		return err
	}
	database, name, err := s.o.Queues.Find(c, c.PathValue("queue"))
	if err != nil {
		return err
	}
	all, err := s.o.Buckets.Rules(c.Context(), b.name)
	if err != nil {
		return failed(err)
	}
	all = slices.DeleteFunc(all, func(r r2.Rule) bool {
		return r.Database != database || r.Queue != name || in.IDs != nil && !slices.Contains(in.IDs, r.ID)
	})
	for _, id := range in.IDs {
		if !slices.ContainsFunc(all, func(r r2.Rule) bool { return r.ID == id }) {
			return refusef("the bucket %s has no rule %s for the queue %s", b.name, id, name)
		}
	}
	for i := range all {
		if _, err := s.o.Buckets.DeleteRule(wire.Finished(c), b.name, all[i].ID); err != nil {
			return failed(err)
		}
	}
	s.note(c, "r2.rule.deleted", b)
	wire.Answer(w, struct{}{})
	return nil
}
