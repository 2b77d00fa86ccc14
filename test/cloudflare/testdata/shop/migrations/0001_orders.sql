CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL);
CREATE INDEX orders_item ON orders (item);
