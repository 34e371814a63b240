"""What is trained of retrieval, with the extra ``train``: data from a dataset and an SKB, the course, the folder."""
