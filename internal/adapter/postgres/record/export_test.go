package record

import "github.com/jackc/pgx/v5/pgxpool"

// Pool is what the store works with.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }
